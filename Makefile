# Everything runs in .venv, which the first target that needs it makes. Needs Python 3.11 or newer, nothing else.

VENV    := .venv
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready
NEWEST  := python3 python python3.14 python3.13 python3.12 python3.11
IS_NEW  := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON  ?= $(shell for p in $(NEWEST); do $$p -c '$(IS_NEW)' 2>/dev/null && { echo $$p; break; }; done)
PIP     := $(BIN)/python -m pip --quiet --disable-pip-version-check
INSTALL := $(PIP) install --use-pep517 --constraint conf/constraints.txt
# The tests of a file share a process and its servers. Two processes suit two cores.
TESTERS ?= 2
TEST    := $(BIN)/python -m pytest --numprocesses=$(TESTERS) --dist=loadfile
# JVMs of tests live for a minute or less. These options save two fifths of it; users and benchmarks get Java's defaults.
QUICK_JVM := -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m -XX:ReservedCodeCacheSize=240m -XX:+UnlockDiagnosticVMOptions \
	-XX:-BytecodeVerificationRemote $(if $(filter Linux,$(shell uname)),-Djdk.lang.Process.launchMechanism=VFORK)
# Extras that make pack installs for executors, and for drivers that run on the cluster.
PACKED  ?= jobs,warehouse
PACKAGE := pyproject.toml conf/constraints.txt $(shell find dcrec_spark conf -type f -not -name '*.pyc')
CODE    := dcrec_spark jobs studies examples tests benchmarks docs/hooks

.PHONY: help demo test test-all test-gate test-spark two-weeks promises lint format bench soak reproduce pack jars docs clean
test test-all test-gate test-spark two-weeks promises: export JDK_JAVA_OPTIONS ?= $(QUICK_JVM)

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo '  The first run sets up $(VENV), which takes a minute or two. Another Python: make demo PYTHON=python3.12'

demo: $(READY)  ## See it work on simulated ratings; DATA=path takes a MovieLens file
	@$(BIN)/python -m examples.demo $(if $(DATA),--data "$(DATA)")

test: $(READY)  ## Run the tests, in TESTERS=2 processes; ARGS="-k session" selects some
	@$(TEST) $(ARGS)

# Each marker by itself: sessions of clusters and warehouses are not those of other tests.
test-all: $(VENV)/.bench $(VENV)/.warehouse-test build/schedulers/.ready jars  ## Run all tests (hours), and write date and counts to docs/reference/promises.md
	@rm -f build/promises.json; failed=0; \
	for marker in '' job 'long and not (cluster or process)' 'process or documentation or scheduler' cluster warehouse; do \
		DCREC_SCHEDULERS=$(abspath build/schedulers) $(TEST) --promises=build/promises.json $${marker:+-m} $${marker:+"$$marker"} $(ARGS) \
			|| failed=1; \
	done; $(BIN)/python -m tests.promises write-all build/promises.json; exit $$failed

test-gate: $(VENV)/.warehouse-test jars
	@$(TEST) -m cluster tests/spark/test_cluster.py -k main_job
	@$(TEST) -m warehouse tests/warehouse/test_jobs.py -k same_rows
	@$(TEST) -m process tests/packaging

# Everything but Spark is that of .venv. Models go from one to the other and back.
ON_SPARK := tests/spark tests/models/test_contract.py tests/engine/test_cluster_side.py tests/models/outcome/test_rank.py
test-spark: build/spark/$(VERSION)/.ready  ## Run a chosen part of the tests on another Spark: make test-spark VERSION=3.5.9
	@DCREC_OTHER_PYTHON=$(abspath $(BIN)/python) build/spark/$(VERSION)/bin/python -m pytest -m 'not cluster' $(ON_SPARK) $(ARGS)

build/spark/%/.ready: $(READY)
	@$(BIN)/python -m venv --clear --without-pip $(@D) && $(PIP) --python $(@D)/bin/python install 'pyspark==$*' grpcio-status
	@echo "import site; site.addsitedir('$$(echo $(abspath $(VENV))/lib/python*/site-packages)')" > "$$(echo $(@D)/lib/python*/site-packages)/others.pth" && touch $@

two-weeks: $(VENV)/.warehouse-test jars  ## Simulate two weeks of nightly runs, and write docs/explanation/two-weeks.md
	@DCREC_TWO_WEEKS=docs/explanation/two-weeks.md $(TEST) -m warehouse tests/warehouse/test_two_weeks.py $(ARGS)

# A test that fails stops nothing here: its promise is recorded as broken.
promises: $(VENV)/.warehouse-test jars  ## Test every promise of docs/reference/promises.md, and write the results there
	@rm -f build/promises.json
	-@$(TEST) -m 'not warehouse' --promises=build/promises.json $$($(BIN)/python -m tests.promises named)
	-@$(TEST) -m warehouse --promises=build/promises.json $$($(BIN)/python -m tests.promises named warehouse)
	@$(BIN)/python -m tests.promises write build/promises.json

lint: $(READY)  ## Check style and types
	@$(BIN)/ruff check --quiet $(CODE) && $(BIN)/ruff format --check --quiet $(CODE) && $(BIN)/mypy
format: $(READY)  ## Format the code
	@$(BIN)/ruff check --fix --quiet $(CODE) && $(BIN)/ruff format $(CODE)

bench: $(VENV)/.bench  ## Measure against MLlib, implicit, cmfrec, hpfrec and poismf (needs a C compiler)
	@$(BIN)/python -m benchmarks.run $(ARGS)
soak: $(READY)  # fifty runs in one process, and fifty in processes of their own, to find leaks
	@$(BIN)/python -m benchmarks.soak $(ARGS) && $(BIN)/python -m benchmarks.soak --own-processes $(ARGS)

reproduce: $(READY)  ## The study of all rows and data sets: make reproduce DATA=folder ARGS="--only coat --work archive"
	@$(BIN)/python -m studies.run --data "$(DATA)" --output docs/studies $(ARGS)

# Spark is on the nodes, so it is left out. --py-files takes *.zip, *.egg and *.jar; a wheel is a zip file.
pack: build/environment.tar.gz build/dcrec_spark.zip  ## Pack an environment for a cluster's executors, and the package as a zip: build/

build/environment.tar.gz: $(READY) $(PACKAGE)
	@$(BIN)/python -m venv --clear --without-pip build/environment
	@$(PIP) --python build/environment/bin/python install --use-pep517 --constraint conf/constraints.txt '.[$(PACKED),pack]'
	@build/environment/bin/venv-pack --quiet --force --prefix build/environment --exclude '*/pyspark/*' --exclude '*/venv_pack/*' --output $@

build/dcrec_spark.zip: $(READY) $(PACKAGE)
	@rm -rf build/wheel && $(PIP) wheel --use-pep517 --no-deps --wheel-dir build/wheel . && mv build/wheel/*.whl $@

jars: $(READY)
	@$(BIN)/dcrec jars --folder $(VENV)/jars >/dev/null
docs: $(READY)  ## Build the documentation into build/site, warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict && echo 'build/site/index.html'
clean:  ## Remove .venv and everything that tools left behind
	@rm -rf $(VENV) build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache spark-warehouse
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml conf/constraints.txt
	@$(BIN)/python -c '' 2>/dev/null || $(MAKE) --no-print-directory $(VENV)
	@echo 'Installing dcrec-spark and Spark into $(VENV) (once; about 600 MB)...'
	@$(INSTALL) --editable '.[dev]' && touch $@

$(VENV)/.%: $(READY)
	@$(INSTALL) --editable '.[dev,$*]' && touch $@

# Airflow needs other versions of much that is in .venv.
build/schedulers/.ready: $(READY) tests/schedulers/requirements.txt
	@$(BIN)/python -m venv --clear --without-pip build/schedulers
	@$(PIP) --python build/schedulers/bin/python install --requirement tests/schedulers/requirements.txt
	@touch $@

# Debian splits off what makes an environment's pip; the machine's own pip can stand in for it.
.PHONY: $(VENV)
$(VENV):
	@"$(PYTHON)" -c '$(IS_NEW)' 2>/dev/null || { echo 'Python 3.11 or newer is needed: make demo PYTHON=/path/to/python3.12'; exit 1; }
	@"$(PYTHON)" -m venv --clear $(VENV) >/dev/null 2>&1 || { "$(PYTHON)" -m venv --clear --without-pip $(VENV) \
			&& "$(PYTHON)" -m pip --quiet --python $(BIN)/python install pip; } 2>/dev/null \
		|| { rm -rf $(VENV); echo 'This Python cannot make environments. On Debian or Ubuntu: apt install python3-venv'; exit 1; }
