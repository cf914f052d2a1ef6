# make setup | test | check | coverage | demo. Each does what it needs first, on a machine with
# Python ≥ 3.11 and pip.
# make setup-locked | sbom | audit | lock: hashes, bill of materials, known vulnerabilities, new hashes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
TOOLS := .venv-tools
LOCK := requirements.lock
# worksteal keeps the tests of a file together, so that both workers seldom build one fixture.
PYTEST := $(BIN)/pytest -n 2 --dist worksteal

.PHONY: setup setup-locked test check coverage demo sbom audit lock clean

setup: $(INSTALLED)

# Again only when the pins or the list of packages change. PIP_CONSTRAINT pins the build tools too.
$(INSTALLED): constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=$(abspath constraints.txt) PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(BIN)/pip install --quiet --progress-bar off -e '.[dev,train,plots,tensorboard]'
	touch $@

# The same with the hash of every package checked, torch's excepted: see CONTRIBUTING.md.
setup-locked:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --progress-bar off --require-hashes --no-deps -r $(LOCK)
	$(MAKE) setup

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest --noconftest tests/test_plain_language.py

test: check
	$(PYTEST)

# Counting lines takes some 1.4 times the CPU: CPython 3.11 has no sys.monitoring.
coverage: setup
	$(PYTEST) --cov --cov-report=term

demo: setup
	$(BIN)/glassformer demo

$(TOOLS): Makefile
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --progress-bar off cyclonedx-bom==7.5.0 pip-audit==2.10.1 uv==0.13.8
	touch $@

# A bill of materials of what is installed, as CycloneDX JSON.
sbom: setup $(TOOLS)
	$(TOOLS)/bin/cyclonedx-py environment $(BIN)/python --output-file sbom.json

audit: $(TOOLS)
	$(TOOLS)/bin/pip-audit --disable-pip --require-hashes --requirement $(LOCK)

# After a change of constraints.txt: the hashes of its pins for every platform.
lock: $(TOOLS)
	grep '==' constraints.txt | grep -v '^torch==' | $(TOOLS)/bin/uv pip compile - --quiet --no-deps \
		--universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		--output-file $(LOCK).new
	(head -n 2 $(LOCK); cat $(LOCK).new) > $(LOCK).both && mv $(LOCK).both $(LOCK) && rm $(LOCK).new

clean:
	rm -rf $(VENV) $(TOOLS) sbom.json build .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
