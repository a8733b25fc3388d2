# Everything runs in .venv, which the first target that needs it makes. Needs Python 3.11 or newer, nothing else.

VENV     := .venv
BIN      := $(VENV)/bin
READY    := $(VENV)/.ready
NEWEST   := python3 python python3.14 python3.13 python3.12 python3.11
IS_FIT   := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON   ?= $(shell for p in $(NEWEST); do $$p -c '$(IS_FIT)' 2>/dev/null && { echo $$p; break; }; done)
PIP      := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Most of a test's time is Spark's own, small steps one after the other: two processes share a machine of two cores well.
TESTERS  ?= 2
# The tests of a file share a process, and its servers; files go in the order that tests/conftest.py and its like put them in.
BY_FILE  := --numprocesses=$(TESTERS) --dist=loadfile --no-loadscope-reorder
# Tests start JVMs that live for a minute or less: with the quick compiler alone they take a third less time, and an
# eighth less again where the byte code of Spark's own archives is not verified. Those that live for long have room for
# what was compiled: the quick compiler is given a fifth of it. Spark's files are made with a chmod each, in a process of
# its own: by vfork, where there is that, in two thirds of the time. What users run is compiled as Spark finds it, and so
# are the benchmarks.
QUICK_JVM := -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m -XX:ReservedCodeCacheSize=240m \
	-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote \
	$(if $(filter Linux,$(shell uname)),-Djdk.lang.Process.launchMechanism=VFORK)
# Of the classes that a night loads; written where many JVMs are to come, and taken wherever it is there.
CLASSES  := $(VENV)/classes.jsa
TAKE_CLASSES := -Xlog:disable -XX:SharedArchiveFile="$(abspath $(CLASSES))"
# What make pack installs for executors, and for drivers that run on the cluster.
PACKED   ?= jobs,warehouse
PACKAGE  := pyproject.toml conf/constraints.txt $(shell find dcrec_spark conf -name '*.py' -o -name '*.j2' -o -name '*.css' -o -path 'conf/*')
CODE     := dcrec_spark jobs studies examples tests benchmarks docs/hooks

# Colours on a terminal only.
BOLD     := $(if $(MAKE_TERMOUT),\033[1m)
PLAIN    := $(if $(MAKE_TERMOUT),\033[0m)
comma     := ,
say       = @printf '$(BOLD)%s$(PLAIN)\n' "$(1)"

.DEFAULT_GOAL := help
.PHONY: help demo test coverage test-blocks test-clusters test-jobs test-processes test-docs test-warehouse test-schedulers two-weeks test-long test-wheel jars lint audit format bench soak promises nine-rows reproduce pack submit docs docs-serve clean

test coverage test-blocks test-clusters test-jobs test-processes test-docs test-warehouse test-long test-wheel two-weeks promises: \
	export JDK_JAVA_OPTIONS ?= $(QUICK_JVM) $(TAKE_CLASSES)

# Each of them starts JVMs by the dozen.
test-clusters test-jobs test-processes test-docs test-warehouse test-long promises: $(CLASSES)

help:  ## Show this list
	@printf '$(BOLD)dcrec-spark$(PLAIN): deconfounded recommendations on Apache Spark\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  $(BOLD)make %-14s$(PLAIN) %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nThe first run sets up $(VENV), which takes a minute or two. Another Python: make demo PYTHON=python3.12\n'

demo: $(READY)  ## See it work on simulated ratings; DATA=path takes a MovieLens file
	@$(BIN)/python -m examples.demo $(if $(DATA),--data "$(DATA)")

test: $(READY)  ## Run the tests, in TESTERS=2 processes; ARGS="-k session" picks some
	@$(BIN)/python -m pytest $(BY_FILE) $(ARGS)

coverage: ARGS += --cov --cov-report=term
coverage: test  ## Run the tests, and show which lines none of them reaches

# Test by test: most are of one file, and share little.
test-blocks: $(READY)  ## Run the tests of whole fits over Spark's blocks: heavy items, interrupted fits, intervals
	@$(BIN)/python -m pytest --numprocesses=$(TESTERS) --dist=load -m 'blocks and not long' $(ARGS)

test-clusters: $(READY)  ## Run the tests on real executors: local-cluster, and a standalone cluster on loopback
	@$(BIN)/python -m pytest --numprocesses=$(TESTERS) --dist=loadfile -m 'cluster and not long' $(ARGS)

test-jobs: $(READY)  ## Run the tests of whole jobs, of the studies and of the demo
	@$(BIN)/python -m pytest --numprocesses=$(TESTERS) --dist=loadfile -m job $(ARGS)

test-processes: $(READY)  ## Run the tests that start, stop and kill jobs in processes of their own
	@$(BIN)/python -m pytest --numprocesses=$(TESTERS) --dist=loadfile -m 'process and not long' $(ARGS)

test-docs: $(READY)  ## Run every code block of README, documentation and docstrings, and the notebooks
	@$(BIN)/python -m pytest --numprocesses=$(TESTERS) --dist=loadfile -m documentation $(ARGS)

jars: $(READY)  ## Fetch the Java archives of Iceberg, Delta, SQLite, PostgreSQL, S3, a small HDFS and a REST catalog (138 MB), checked by their checksums
	@$(BIN)/python -m dcrec_spark.spark.jars $(VENV)/jars >/dev/null

test-warehouse: $(VENV)/.warehouse jars  ## Run the tests against real catalogs and databases
	@DCREC_JARS=$(VENV)/jars $(BIN)/python -m pytest $(BY_FILE) -m 'warehouse and not long' tests/warehouse $(ARGS)

test-schedulers: $(READY) build/schedulers/.ready  ## Run nights by Airflow, cron and MLflow, and check those of Kubernetes
	@DCREC_SCHEDULERS=$(abspath build/schedulers) $(BIN)/python -m pytest -m scheduler tests/schedulers $(ARGS)

test-long: $(VENV)/.warehouse jars  ## Run the tests that take minutes, of kinds that others try at every change
	@$(BIN)/python -m pytest $(BY_FILE) -m 'long and not warehouse' $(ARGS)
	@DCREC_JARS=$(VENV)/jars $(BIN)/python -m pytest $(BY_FILE) -m 'warehouse and long' tests/warehouse $(ARGS)

two-weeks: $(VENV)/.warehouse jars  ## Simulate two weeks of nights, and write docs/explanation/two-weeks.md
	@DCREC_JARS=$(VENV)/jars DCREC_TWO_WEEKS=docs/explanation/two-weeks.md \
		$(BIN)/python -m pytest -m warehouse tests/warehouse/test_two_weeks.py $(ARGS)

test-wheel: $(READY)  ## Build the wheel, install it alone into an empty environment, and fit a model there
	@$(BIN)/python -m pytest -m packaging tests/packaging $(ARGS)

lint: $(READY)  ## Check style and types
	@$(BIN)/ruff check --quiet $(CODE)
	@$(BIN)/ruff format --check --quiet $(CODE)
	@$(BIN)/mypy

# Every pin is asked for by itself, whatever this machine would install; --strict: one that is not found is no pass.
audit: $(VENV)/.audit  ## Ask PyPI for weaknesses that are known in conf/constraints.txt (needs the network)
	@$(BIN)/pip-audit --requirement conf/constraints.txt --no-deps --disable-pip --strict --progress-spinner off $(ARGS)

format: $(READY)  ## Put the code in the house's form
	@$(BIN)/ruff check --fix --quiet $(CODE)
	@$(BIN)/ruff format $(CODE)

bench: $(VENV)/.bench  ## Measure against MLlib, implicit, cmfrec, hpfrec and poismf (needs a C compiler)
	@$(BIN)/python -m benchmarks.run $(ARGS)

soak: $(READY)  ## Fifty nights in one process, and fifty in processes of their own: what grows that should not?
	@$(BIN)/python -m benchmarks.soak $(ARGS)
	@$(BIN)/python -m benchmarks.soak --own-processes $(ARGS)

# A test that fails stops nothing here: its promise is written down as broken.
promises: $(VENV)/.warehouse jars  ## Try every fault of docs/reference/promises.md, and write there how often, with what result
	@rm -f build/promises.json
	-@$(BIN)/python -m pytest $(BY_FILE) -m 'not warehouse' --promises=build/promises.json \
		$$($(BIN)/python -m tests.promises named)
	-@DCREC_JARS=$(VENV)/jars $(BIN)/python -m pytest $(BY_FILE) -m warehouse --promises=build/promises.json \
		$$($(BIN)/python -m tests.promises named warehouse)
	@$(BIN)/python -m tests.promises write build/promises.json

nine-rows: $(READY)  ## Fit the paper's nine models on Coat and MovieLens 100K: make nine-rows DATA=folder
	@$(BIN)/python -m benchmarks.nine_rows $(if $(DATA),--data "$(DATA)") $(ARGS)

reproduce: $(READY)  ## The paper's tables and figures: make reproduce DATA=folder PROFILE=quick (minutes) or full (hours)
	@$(BIN)/python jobs/reproduce.py $(if $(DATA),--set "studies.data=$(DATA)") --set studies.profile=$(or $(PROFILE),quick) \
		--set output.path=docs/studies/$(or $(PROFILE),quick) $(ARGS)

pack: build/environment.tar.gz build/dcrec_spark.zip  ## Pack an environment for a cluster's executors, and the package as a zip: build/

# Spark is on the nodes: what it brings itself is left out, and so is what packed the rest.
build/environment.tar.gz: $(READY) $(PACKAGE)
	$(call say,Packing an environment with dcrec-spark[$(PACKED)] into $@ (170 MB)...)
	@$(BIN)/python -m venv --clear --without-pip build/environment
	@$(PIP) --python build/environment/bin/python install --use-pep517 --constraint conf/constraints.txt '.[$(PACKED),pack]'
	@build/environment/bin/venv-pack --quiet --force --prefix build/environment --exclude '*/pyspark/*' --exclude '*/venv_pack/*' --output $@

# Spark puts nothing else than *.zip, *.egg and *.jar of --py-files on the executors' path; a wheel is a zip file.
build/dcrec_spark.zip: $(READY) $(PACKAGE)
	@rm -rf build/wheel
	@$(PIP) wheel --use-pep517 --no-deps --wheel-dir build/wheel .
	@mv build/wheel/*.whl $@

submit: $(READY)  ## Run a job through spark-submit: make submit JOB=jobs/retrain.py ARGS="--dry-run"
	@JAVA_HOME="$$($(BIN)/python -m dcrec_spark.spark.java)" PYSPARK_PYTHON="$(abspath $(BIN)/python)" SPARK_CONF_DIR=conf \
		$(BIN)/spark-submit $(SPARK_ARGS) $(JOB) $(ARGS)

docs: $(READY)  ## Build the documentation into build/site, warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo 'build/site/index.html'

docs-serve: $(READY)  ## Show the documentation in a browser while it is written
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

clean:  ## Remove .venv and everything that tools left behind
	@rm -rf $(VENV) build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache spark-warehouse
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml conf/constraints.txt
	@$(BIN)/python -c '' 2>/dev/null || $(MAKE) --no-print-directory $(VENV)
	$(call say,Installing dcrec-spark and Spark into $(VENV) (once; about 600 MB)...)
	@$(PIP) install --use-pep517 --constraint conf/constraints.txt --editable '.[dev]'
	@touch $@

# Of its own: Airflow needs other versions of much that is in .venv.
build/schedulers/.ready: $(READY) tests/schedulers/requirements.txt
	$(call say,Installing Airflow and MLflow and the schemas of Kubernetes into build/schedulers (0.5 GB)...)
	@$(BIN)/python -m venv --clear --without-pip build/schedulers
	@$(PIP) --python build/schedulers/bin/python install --requirement tests/schedulers/requirements.txt
	@$(PIP) install --target build/schedulers/mlflow mlflow-skinny==3.17.2 sqlalchemy alembic
	@touch $@

$(VENV)/.bench: $(READY)
	@command -v cc >/dev/null || command -v gcc >/dev/null || { \
		echo 'make bench compiles cmfrec, hpfrec and poismf, and there is no C compiler here. On Debian or Ubuntu: apt install gcc'; exit 1; }
	$(call say,Installing what the benchmarks compare with...)
	@$(PIP) install --use-pep517 --constraint conf/constraints.txt --editable '.[dev,bench]'
	@touch $@

$(VENV)/.audit: $(READY)
	@$(PIP) install --use-pep517 --constraint conf/constraints.txt --editable '.[dev,audit]'
	@touch $@

$(VENV)/.warehouse: $(READY)
	$(call say,Installing PostgreSQL$(comma) Redis$(comma) an S3 server and readers of Iceberg and Delta...)
	@$(PIP) install --use-pep517 --constraint conf/constraints.txt --editable '.[dev,warehouse-test]'
	@touch $@

$(CLASSES): $(READY)
	$(call say,Writing an archive of the classes that a night loads...)
	@JDK_JAVA_OPTIONS='$(QUICK_JVM)' $(BIN)/python -m tests.class_archive $@

# Debian splits off what makes an environment's pip; the machine's own pip can stand in for it.
.PHONY: $(VENV)
$(VENV):
	@test -n "$(PYTHON)" || { \
		echo 'Python 3.11 or newer is needed, and none of these is: $(NEWEST).'; \
		echo 'Install one, or say where it is: make demo PYTHON=/path/to/python3.12'; exit 1; }
	@"$(PYTHON)" -c '$(IS_FIT)' || { \
		echo "Python 3.11 or newer is needed, and $(PYTHON) is $$("$(PYTHON)" -V 2>&1)."; exit 1; }
	$(call say,Making an environment in $(VENV) with $(PYTHON)...)
	@"$(PYTHON)" -m venv --clear $(VENV) >/dev/null 2>&1 \
		|| { "$(PYTHON)" -m venv --clear --without-pip $(VENV) \
			&& "$(PYTHON)" -m pip --quiet --python $(BIN)/python install pip; } 2>/dev/null \
		|| { rm -rf $(VENV); \
			echo 'This Python cannot make environments: its venv module is incomplete.'; \
			echo 'On Debian or Ubuntu: apt install python3-venv'; exit 1; }
