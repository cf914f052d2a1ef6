"""Replacing modules of a model."""

from torch import nn

from glassformer.model.replace import replace


def nested() -> nn.Module:
    inner = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.ReLU()})
    return nn.Sequential(nn.Linear(2, 3), inner, nn.ModuleList([nn.Sequential(nn.Linear(2, 2))]))


def test_modules_of_every_depth_are_replaced_by_name_and_no_others():
    model, asked = nested(), []
    relu = model[1]["b"]

    def convert(module, name):
        asked.append(name)
        return nn.Identity() if isinstance(module, nn.Linear) else None

    replace(model, convert)
    assert asked == ["0", "1", "1.a", "1.b", "2", "2.0", "2.0.0"]
    replaced = [name for name, module in model.named_modules() if isinstance(module, nn.Identity)]
    assert replaced == ["0", "1.a", "2.0.0"]
    assert model[1]["b"] is relu


def test_the_inside_of_a_replacement_is_not_converted():
    model = nested()
    replace(model, lambda module, name: nn.Sequential(nn.Linear(1, 1)) if name == "1" else None)
    assert [name for name, _ in model.named_children()] == ["0", "1", "2"]
    assert isinstance(model[1][0], nn.Linear)


def test_a_module_in_two_places_is_converted_once():
    part, asked = nn.Linear(2, 2), []
    model = nn.ModuleDict({"a": nn.Sequential(part), "b": nn.Sequential(part, nn.ReLU())})

    def convert(module, name):
        asked.append(name)
        return nn.Identity() if module is part else None

    replace(model, convert)
    assert asked == ["a", "a.0", "b", "b.1"]
    assert isinstance(model["a"][0], nn.Identity) and model["a"][0] is model["b"][0]
