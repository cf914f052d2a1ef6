"""Other modules in the place of a model's own."""

from weakref import ref

from torch import nn

from glassformer.model.replace import nothing, replace


def nested() -> nn.Module:
    inner = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.ReLU()})
    return nn.Sequential(nn.Linear(2, 3), inner, nn.ModuleList([nn.Sequential(nn.Linear(2, 2))]))


def test_every_depth_is_reached_by_its_name_and_nothing_else_is_touched():
    model, asked = nested(), []
    relu = model[1]["b"]

    def convert(module, name):
        asked.append(name)
        return nn.Identity() if isinstance(module, nn.Linear) else None

    replace(model, convert)
    assert asked == ["0", "1", "1.a", "1.b", "2", "2.0", "2.0.0"]
    heirs = [name for name, module in model.named_modules() if isinstance(module, nn.Identity)]
    assert heirs == ["0", "1.a", "2.0.0"]
    assert model[1]["b"] is relu


def test_what_was_replaced_is_not_looked_into():
    model = nested()
    replace(model, lambda module, name: nn.Sequential(nn.Linear(1, 1)) if name == "1" else None)
    assert [name for name, _ in model.named_children()] == ["0", "1", "2"]
    assert isinstance(model[1][0], nn.Linear)


def test_a_part_in_two_places_has_one_heir_and_is_asked_for_once():
    part, asked = nn.Linear(2, 2), []
    model = nn.ModuleDict({"a": nn.Sequential(part), "b": nn.Sequential(part, nn.ReLU())})

    def convert(module, name):
        asked.append(name)
        return nn.Identity() if module is part else None

    replace(model, convert)
    assert asked == ["a", "a.0", "b", "b.1"]
    assert isinstance(model["a"][0], nn.Identity) and model["a"][0] is model["b"][0]


def test_what_is_replaced_is_let_go_before_the_next_is():
    """Weights are filled in one layer after the other, and should not be there all at once."""
    model, alive = nn.Sequential(*(nn.Linear(2, 2) for _ in range(3))), []
    replaced: list[ref[nn.Module]] = []

    def convert(module, name):
        alive.append(sum(before() is not None for before in replaced))
        replaced.append(ref(module))
        return nn.Identity()

    replace(model, convert)
    assert max(alive) <= 1  # the one that was just taken out


def test_a_model_that_has_its_weights_is_given_none():
    linear = nn.Linear(2, 2)
    before = linear.weight.clone()
    nothing(linear, "linear")
    assert (linear.weight == before).all()
