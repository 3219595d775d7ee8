# make run    the app, with everything it needs        make lint   ruff and layering
# make test   every fast test                          make types  mypy, strict on core
# make test-all   the slow ones as well                make doctor what is missing here
# make record-gpu on a machine with a GPU: its tests, then every scenario recorded on it
PY := .venv/bin/python
PORT ?= 8501
# Two by default: a small machine's cores. `make test WORKERS=8` on a larger one.
WORKERS ?= 2
PYTEST = $(PY) -m pytest -n $(WORKERS) --dist loadscope --timeout 300

.PHONY: run test test-all lint types doctor record-gpu env env-dev env-test clean

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

# Stops at the first that fails: kernels that fail their tests record nothing. Interrupted, it goes
# on where it stood; RECORD="--again" records what is there anew.
record-gpu: env-test
	$(PY) scripts/doctor.py --gpu
	$(PY) -m pytest -m gpu -n 0 --timeout 1800
	$(PY) -m core calibrate --device cuda
	$(PY) -m core record --all --device cuda $(RECORD)

clean:
	rm -rf .venv .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
