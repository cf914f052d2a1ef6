# make setup | test | check | demo. Each does what it needs first, on a machine with Python ≥ 3.11 and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed

.PHONY: setup test check demo clean

setup: $(INSTALLED)

# Again only when the pins or the list of packages change. PIP_CONSTRAINT pins the build tools too.
$(INSTALLED): constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=$(abspath constraints.txt) PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(BIN)/pip install --quiet --progress-bar off -e '.[dev,train,plots,tensorboard]'
	touch $@

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest --noconftest tests/test_plain_language.py

test: check
	$(BIN)/pytest -n 2 --cov --cov-report=term

demo: setup
	$(BIN)/glassformer demo

clean:
	rm -rf $(VENV) build .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
