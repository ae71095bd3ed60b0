# Two commands do everything on a fresh machine with Python 3.11 and make:
#   make run     compare AFBS, FedBuff and FedAvg on embedded data; writes report.html
#   make test    the quick suite, with linters and type checks
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test test-long coverage lint docs package bench browser clean

run: .venv/.base
	$(BIN)/afbs quickstart --report report.html

test: .venv/.dev browser lint
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not long"

# The kernels are built by clang and for aarch64, too, where these are: clang, gcc-aarch64-linux-gnu, qemu-user.
test-long: .venv/.dev browser
	$(BIN)/python -m pytest -m long

# Apart from `test`, because counting lines costs a third more processor time.
coverage: .venv/.dev browser
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not long" --cov --cov-report=
	@$(BIN)/coverage report | sed -n '1,17p; /^TOTAL/p'

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A folder `site` that opens without a server: site/index.html. A warning is an error.
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# dist/: the same bytes from the same commit.
package: .venv/.dev
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --quiet

bench: .venv/.dev
	$(BIN)/python -m benchmarks

# The page is tested in a real browser. Where one cannot be installed, those tests are skipped and say so.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& apt-get update -qq && apt-get install -y -qq chromium fonts-dejavu-core >/dev/null; } || true

.venv/.torch: constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) torch
	@touch $@

# Each installs the package once: the compiler need not be asked again for what is there. `dev` is all of them.
.venv/.docs: EXTRA := [docs]
.venv/.dev: EXTRA := [dev]
.venv/.dev: THERE := .venv/.docs
.venv/.base .venv/.docs .venv/.dev: .venv/.torch pyproject.toml $(wildcard native/*.c native/*.h) native/CMakeLists.txt
	$(PIP) --editable ".$(EXTRA)"
	@$(BIN)/python -m afbs.native
	@touch .venv/.base $(THERE) $@

clean:
	rm -rf .venv runs sweeps site dist report.html src/afbs/native/_kernels.so
	git clean -fdXq native
