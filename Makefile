# A menu; dev.py does the work and runs without make as well. Options are passed on: make demo ARGS=--crash
PYTHON ?= python3
ARGS ?=

.PHONY: help demo check test tools servers bench campaign mutants chaos pyflink-tests docs docs-serve behaviours values changelog lock audit package clean

help:
	@$(PYTHON) dev.py help $(ARGS)
demo:
	@$(PYTHON) dev.py demo $(ARGS)
check:
	@$(PYTHON) dev.py check $(ARGS)
test:
	@$(PYTHON) dev.py test $(ARGS)
tools:
	@$(PYTHON) dev.py tools $(ARGS)
servers:
	@$(PYTHON) dev.py servers $(ARGS)
bench:
	@$(PYTHON) dev.py bench $(ARGS)
campaign:
	@$(PYTHON) dev.py campaign $(ARGS)
mutants:
	@$(PYTHON) dev.py mutants $(ARGS)
chaos:
	@$(PYTHON) dev.py chaos $(ARGS)
pyflink-tests:
	@$(PYTHON) dev.py pyflink-tests $(ARGS)
docs:
	@$(PYTHON) dev.py docs $(ARGS)
docs-serve:
	@$(PYTHON) dev.py docs-serve $(ARGS)
behaviours:
	@$(PYTHON) dev.py behaviours $(ARGS)
values:
	@$(PYTHON) dev.py values $(ARGS)
changelog:
	@$(PYTHON) dev.py changelog $(ARGS)
lock:
	@$(PYTHON) dev.py lock $(ARGS)
audit:
	@$(PYTHON) dev.py audit $(ARGS)
package:
	@$(PYTHON) dev.py package $(ARGS)
clean:
	@$(PYTHON) dev.py clean $(ARGS)
