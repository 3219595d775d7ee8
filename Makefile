# make run    the app, with everything it needs        make lint   ruff and layering
# make test   every fast test                          make types  mypy, strict on core
# make test-all   the slow ones as well                make doctor what is missing here
PY := .venv/bin/python
PORT ?= 8501
# Two by default: a small machine's cores. `make test WORKERS=8` on a larger one.
WORKERS ?= 2
PYTEST = $(PY) -m pytest -n $(WORKERS) --dist loadscope --timeout 300

.PHONY: run test test-all lint types doctor env env-dev env-test clean

run: env
	$(PY) -m streamlit run app.py --server.port $(PORT)

env:
	@python="$$(sh scripts/find_python.sh)" && "$$python" scripts/setup.py --model

env-dev:
	@python="$$(sh scripts/find_python.sh)" && "$$python" scripts/setup.py --dev

env-test:
	@python="$$(sh scripts/find_python.sh)" && "$$python" scripts/setup.py --dev --model

test: env-test
	$(PYTEST) -m "not slow"

test-all: env-test
	$(PYTEST)

lint: env-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	.venv/bin/lint-imports

types: env-dev
	$(PY) -m mypy

doctor:
	@python="$$(sh scripts/find_python.sh)" && "$$python" scripts/doctor.py --dev

clean:
	rm -rf .venv .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
