# Segue. `make start` serves the demo; `make test` runs all that CI runs. Everything else is a part of these or a measurement.
SHELL := bash
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
TEST := node --test --test-force-exit --test-reporter=spec
UNIT := $(shell find test -name '*.test.ts' -not -path 'test/e2e/*' -not -path 'test/interruption/*' -not -path 'test/faults/*' -not -path 'test/media/webrtc*' 2>/dev/null)

.PHONY: start setup setup-test test lint test-unit test-e2e test-interruption test-faults soak bench docs-api \
	bench-interrupt bench-redirect bench-action bench-overhead bench-start bench-sessions bench-scheduler train train-gpu train-adapters eval-model

start: setup
	@exec node src/api/main.ts

setup:
	@bash scripts/setup.sh serve

setup-test:
	@bash scripts/setup.sh test

test: setup-test
	@bash scripts/test.sh

lint: setup
	tsc --noEmit
	tsc --noEmit -p web-client
	eslint .

test-unit: setup
	$(TEST) $(UNIT)

test-interruption: setup-test
	$(TEST) --test-concurrency=1 $$(find test/interruption -name '*.test.ts')

test-e2e: setup-test
	$(TEST) --test-concurrency=1 test/media/webrtc.test.ts $$(find test/e2e -name '*.test.ts')

test-faults: setup-test
	$(TEST) --test-concurrency=1 $$(find test/faults -name '*.test.ts')

# Long runs that a virtual clock stands in for in CI.
soak: setup-test
	SEGUE_SOAK=1000 SEGUE_SOAK_INTERRUPTS=10000 SEGUE_SOAK_REJOINS=100 $(TEST) --test-concurrency=1 $$(find test/interruption -name '*.test.ts')
	SEGUE_SOAK_KILLS=200 $(TEST) test/faults/killed.test.ts

bench: setup-test
	node bench/run.ts

bench-interrupt bench-overhead bench-start bench-sessions bench-scheduler: bench-%: setup-test
	node bench/$*.ts

# In browsers, and on a virtual clock where nothing of the machine is in it.
bench-redirect bench-action: bench-%: setup-test
	node bench/$*.ts
	node bench/$*_virtual.ts

docs-api: setup
	typedoc --options typedoc.json

# The model. These need the packages of python/requirements.lock; serving needs none of them. See docs/model/training.md.
PYTHON ?= python3
train:
	PYTHONPATH=python $(PYTHON) -m segue_drive.training.run --run build/train --out build/source

train-gpu:
	PYTHONPATH=python $(PYTHON) -m segue_drive.training.run --run build/train --out build/source --device cuda

# SOURCE: the checkpoints that models/drive was converted from. Goes on where it was.
train-adapters:
	PYTHONPATH=python $(PYTHON) -m segue_drive.training.adapter_stage --source $(SOURCE) --run build/adapters --out models/drive/adapters
	PYTHONPATH=python $(PYTHON) -m segue_drive.install_adapters --source $(SOURCE)

eval-model:
	PYTHONPATH=python $(PYTHON) -m segue_drive.evaluation.run
