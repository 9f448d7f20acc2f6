# A menu; dev.py does the work and runs without make as well. Options are passed on: make demo ARGS=--crash
PYTHON ?= python3
ARGS ?=

.PHONY: help demo check test tools bench campaign behaviours lock clean

help:  # the recipes, in groups
	@$(PYTHON) dev.py help

# See it work
demo:
	@$(PYTHON) dev.py demo $(ARGS)

# Change it
check:
	@$(PYTHON) dev.py check $(ARGS)
test:
	@$(PYTHON) dev.py test $(ARGS)
tools:
	@$(PYTHON) dev.py tools

# Measure it
bench:
	@$(PYTHON) dev.py bench $(ARGS)
campaign:
	@$(PYTHON) dev.py campaign $(ARGS)

# Keep house
behaviours:
	@$(PYTHON) dev.py behaviours
lock:
	@$(PYTHON) dev.py lock $(ARGS)
clean:
	@$(PYTHON) dev.py clean
