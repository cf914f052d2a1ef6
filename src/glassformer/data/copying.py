"""Pairs that teach copying: addresses, numbers, prices, names, placeholders and emoji.

What is copied is the same on both sides, but for numbers and prices, which each language writes in
its own way: $12.50 and 1,500 in English, 12,50 $ and 1 500 in French.
"""

import re
from collections.abc import Callable
from random import Random

Pair = tuple[str, str]
Written = dict[str, str]  # by language


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SYLLABLES = _words(
    """ba be bo bri ca che cor da del do dra el fa fer gan go gri ha hel ho in ja jo ka ki kor la le
    lin lo ma mar me mi mo na ne ni no ol or pa pe per ra re ri ro sa sel si so ta te ti tor tu va
    ve vi wa wil xa ya yo za zu"""
)
_WORDS = _words(
    """account active album alpha archive atlas blog book cart check cloud code contact data demo
    docs download draft event faq field file forum guide help home image index info invoice item
    launch list login map menu news note offer order page photo plan post price profile project
    report search setup shop status store support team terms test ticket tool travel update user
    video wiki"""
)
_DOMAINS = _words("com com com org net fr fr io eu info co.uk ca be ch dev")
_EMOJI = _words(
    """😀 😂 😊 😍 😉 😎 😢 😭 😡 🤔 🙏 👍 👎 👏 🙌 💪 ❤️ 💔 🔥 ✨ 🎉 🎂 🌞 🌧️ ⭐
    ✅ ❌ ⚠️ 📷 📞 🚗 ✈️ 🏠 👨‍👩‍👧 🇫🇷 🇬🇧 👋 🥰 😅 🤷 💡 📅 🎵 🍕 ☕ 🐱 🐶 🌍"""
)

# A pair of sentences with one slot, its kind in braces.
TEMPLATES: tuple[Written, ...] = tuple(
    {"en": english, "fr": french}
    for english, french in (
        ("See {url}.", "Voir {url}."),
        ("Visit {url} for more information.", "Visitez {url} pour plus d'informations."),
        ("More details: {url}", "Plus de détails : {url}"),
        ("The website is {url}.", "Le site est {url}."),
        ("Go to {url} and log in.", "Allez sur {url} et connectez-vous."),
        ("You can download it from {url}.", "Vous pouvez le télécharger sur {url}."),
        ("Send me an e-mail at {email}.", "Envoyez-moi un e-mail à {email}."),
        ("Please write to {email}.", "Veuillez écrire à {email}."),
        ("Contact us at {email} if you have a question.", "Contactez-nous à {email} si vous avez "
         "une question."),
        ("My address is {email}.", "Mon adresse est {email}."),
        ("It costs {price}.", "Ça coûte {price}."),
        ("The price is {price}.", "Le prix est de {price}."),
        ("I paid {price} for it.", "Je l'ai payé {price}."),
        ("The ticket costs {price} per person.", "Le billet coûte {price} par personne."),
        ("You owe me {price}.", "Tu me dois {price}."),
        ("The total is {price}, including tax.", "Le total est de {price}, taxes comprises."),
        ("There were {number} people.", "Il y avait {number} personnes."),
        ("We sold {number} books.", "Nous avons vendu {number} livres."),
        ("The answer is {number}.", "La réponse est {number}."),
        ("It weighs {number} kilos.", "Il pèse {number} kilos."),
        ("The distance is {number} km.", "La distance est de {number} km."),
        ("Prices rose by {number}%.", "Les prix ont augmenté de {number} %."),
        ("The temperature is {number} degrees.", "La température est de {number} degrés."),
        ("Call me at {code}.", "Appelle-moi au {code}."),
        ("My phone number is {code}.", "Mon numéro de téléphone est le {code}."),
        ("The reference is {code}.", "La référence est {code}."),
        ("Enter the code {code}.", "Entrez le code {code}."),
        ("Order number {code} has been shipped.", "La commande numéro {code} a été expédiée."),
        ("Version {code} is available.", "La version {code} est disponible."),
        ("Hello {placeholder}!", "Bonjour {placeholder} !"),
        ("Welcome, {placeholder}.", "Bienvenue, {placeholder}."),
        ("Dear {placeholder},", "Cher {placeholder},"),
        ("You have {placeholder} new messages.", "Vous avez {placeholder} nouveaux messages."),
        ("The file {placeholder} was not found.", "Le fichier {placeholder} est introuvable."),
        ("Could not open {placeholder}.", "Impossible d'ouvrir {placeholder}."),
        ("My name is {name}.", "Je m'appelle {name}."),
        ("{name} lives in Paris.", "{name} habite à Paris."),
        ("I met {name} yesterday.", "J'ai rencontré {name} hier."),
        ("This is my friend {name}.", "Voici mon ami {name}."),
        ("{name} is late again.", "{name} est encore en retard."),
        ("Do you know {name}?", "Connaissez-vous {name} ?"),
        ("I love you {emoji}", "Je t'aime {emoji}"),
        ("Thank you so much! {emoji}", "Merci beaucoup ! {emoji}"),
        ("Happy birthday {emoji}", "Joyeux anniversaire {emoji}"),
        ("See you tomorrow {emoji}", "À demain {emoji}"),
        ("Good morning! {emoji}", "Bonjour ! {emoji}"),
    )
)  # fmt: skip
_SLOT = re.compile(r"\{(\w+)\}")
_WORD = re.compile(r"\b\w{2,}\b")
_INTEGER = re.compile(r"(?<![\w.,:/-])\d+(?![\w/:-]|[.,]\d)")


def copied_pair(pair: Pair, languages: tuple[str, str], random: Random) -> Pair:
    """Return the pair changed in something that both sides copy, or a pair made from a template."""
    draw = random.random()
    if draw < 0.3 and (other := _other_number(pair, random)):
        return other
    if draw < 0.5 and (masked := _with_placeholder(pair, random)):
        return masked
    if draw < 0.6:
        return f'"{pair[0]}"', f'"{pair[1]}"'
    known = all(language in TEMPLATES[0] for language in languages)
    if draw < 0.85 and known:
        return _from_template(languages, random)
    return _with_addition(pair, languages, random)


def _with_placeholder(pair: Pair, random: Random) -> Pair | None:
    """Replace a word that both sides have once by `{1}`, as the pipeline masks what it copies."""
    found = [_WORD.findall(text) for text in pair]
    common = [word for word in found[0] if found[0].count(word) == found[1].count(word) == 1]
    if not common:
        return None
    old, new = random.choice(common), f"{{{random.choice((1, 1, 1, 2, 3))}}}"
    x, y = (_WORD.sub(lambda match: new if match[0] == old else match[0], text) for text in pair)
    return x, y


def _other_number(pair: Pair, random: Random) -> Pair | None:
    """Replace the one whole number that both sides have once, if there is one."""
    found = [_INTEGER.findall(text) for text in pair]
    common = [
        number for number in found[0] if found[0].count(number) == found[1].count(number) == 1
    ]
    if not common:
        return None
    old, new = random.choice(common), str(_whole(random))
    x, y = (_INTEGER.sub(lambda match: new if match[0] == old else match[0], text) for text in pair)
    return x, y


def _from_template(languages: tuple[str, str], random: Random) -> Pair:
    template = random.choice(TEMPLATES)
    kind = _SLOT.findall(template[languages[0]])[0]
    item = ITEMS[kind](random)
    x, y = (
        template[language].replace(f"{{{kind}}}", item.get(language, item["en"]))
        for language in languages
    )
    return x, y


def _with_addition(pair: Pair, languages: tuple[str, str], random: Random) -> Pair:
    """Put the same thing behind both sides, or before them."""
    item = ITEMS[random.choice(("url", "email", "placeholder", "emoji", "emoji", "code"))](random)
    behind = random.random() < 0.7
    x, y = (f"{text} {item['en']}" if behind else f"{item['en']} {text}" for text in pair)
    return x, y


def _same(text: str) -> Written:
    return {"en": text}


def _word(random: Random) -> str:
    return "".join(random.choices(_SYLLABLES, k=random.randint(2, 3)))


def _url(random: Random) -> Written:
    host = random.choice(("www.", "www.", "", "", "docs.", "shop."))
    host += f"{random.choice((_word(random), random.choice(_WORDS)))}.{random.choice(_DOMAINS)}"
    parts = [random.choice((_word(random), random.choice(_WORDS), str(random.randint(1, 2_030))))
             for _ in range(random.choice((0, 0, 1, 1, 2, 3)))]  # fmt: skip
    path = "/" + "/".join(parts) if parts else random.choice(("", "", "/"))
    query = f"?{random.choice(_WORDS)}={random.randint(1, 999)}" if random.random() < 0.15 else ""
    scheme = random.choice(("https://", "https://", "http://", "")) if path or query else "https://"
    return _same(f"{scheme}{host}{path}{query}")


def _email(random: Random) -> Written:
    user = random.choice((_word(random), random.choice(_WORDS)))
    user += random.choice(
        ("", f".{_word(random)}", str(random.randint(1, 99)), f"_{_word(random)}")
    )
    return _same(f"{user}@{_word(random)}.{random.choice(_DOMAINS)}")


def _whole(random: Random) -> int:
    return random.randint(2, 10 ** random.choice((1, 2, 2, 3, 3, 4, 5, 6)))


def _number(random: Random) -> Written:
    """Whole, with thousands, or decimal; each language has its own separators."""
    draw = random.random()
    if draw < 0.5:
        return _same(str(random.randint(2, 2_100)))
    if draw < 0.75:
        text = f"{random.randint(1_000, 10 ** random.randint(4, 7)):,}"
        return {"en": text, "fr": text.replace(",", " ")}
    text = f"{random.randint(0, 200)}.{random.randint(1, 99)}"
    return {"en": text, "fr": text.replace(".", ",")}


def _price(random: Random) -> Written:
    sign = random.choice("$$€€£")
    whole = random.choice((random.randint(1, 99), random.randint(100, 5_000)))
    cents = random.choice(("", ".50", ".99", f".{random.randint(0, 99):02d}"))
    french = f"{whole:,}".replace(",", " ") + cents.replace(".", ",")
    return {"en": f"{sign}{whole:,}{cents}", "fr": f"{french} {sign}"}


def _code(random: Random) -> Written:
    """Phone numbers, references, versions, times."""
    digits = [random.randint(0, 99) for _ in range(5)]
    letters = "".join(random.choices("ABCDEFGHJKLMNPQRSTUVWXYZ", k=2))
    return _same(
        random.choice(
            (
                f"0{digits[0] % 10} " + " ".join(f"{d:02d}" for d in digits[1:]),
                f"+33 {digits[0] % 10} " + " ".join(f"{d:02d}" for d in digits[1:]),
                f"555-{digits[0]:02d}{digits[1]:02d}",
                f"{letters}-{random.randint(100, 99_999)}",
                f"{letters}{random.randint(1, 9_999)}",
                f"{random.randint(0, 20)}.{random.randint(0, 20)}.{random.randint(0, 20)}",
                str(random.randint(1_000, 99_999_999)),
            )
        )
    )


def _placeholder(random: Random) -> Written:
    word = random.choice(_WORDS)
    if random.random() < 0.5:  # the form in which the pipeline masks addresses, tags and emoji
        return _same(f"{{{random.choice((1, 1, 2, 3))}}}")
    form = random.choice(("{%s}", "{{%s}}", "%%(%s)s", "<%s>", "$%s", "${%s}", "[%s]", "%%s"))
    return _same(form % word if form != "%%s" else random.choice(("%s", "%d", "{0}", "{1}")))


def _name(random: Random) -> Written:
    names = [_word(random).capitalize() for _ in range(random.choice((1, 1, 2)))]
    return _same(" ".join(names))


def _emoji(random: Random) -> Written:
    return _same("".join(random.choices(_EMOJI, k=random.choice((1, 1, 1, 2, 3)))))


ITEMS: dict[str, Callable[[Random], Written]] = {
    "url": _url,
    "email": _email,
    "number": _number,
    "price": _price,
    "code": _code,
    "placeholder": _placeholder,
    "name": _name,
    "emoji": _emoji,
}
