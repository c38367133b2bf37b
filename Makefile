# The way in for people: every target does its own set-up first and is quick when repeated.
# What the set-up does is in tools/provision; `tools/setup.sh --plan` prints it without doing it.

OPENSAFE_PREFIX ?= /opt/opensafe
export OPENSAFE_PREFIX

PYTHON := .venv/bin/python
SETUP  := tools/setup.sh

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint proto native bundle image peers lock install uninstall clean

help: ## show the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

setup: ## everything a checkout needs; resumes where it stopped
	@$(SETUP) setup

demo: setup ## six tool calls of one agent session, judged and run
	@$(PYTHON) -m tools.demo

test: ## all tests, linters included
	@$(SETUP) test
	@tools/test.sh

lint: setup ## the linters alone
	@tools/test.sh tests/lint

proto: ## regenerate the gRPC stubs from proto/
	@$(SETUP) python
	@$(PYTHON) tools/protogen.py

native: ## compile native/ into build/native
	@$(SETUP) native

bundle: ## build the policy bundle
	@$(SETUP) bundle

image: ## build the runner images
	@$(SETUP) image

peers: ## install what `opensafe bench` compares with
	@$(SETUP) peers

lock: ## resolve the dependencies again; needs the package index
	@$(SETUP) python
	@tools/lock.sh

install: ## install under PREFIX (DESTDIR honoured)
	@$(SETUP) setup
	@deploy/install.sh

uninstall: ## remove what install put there; state and configuration stay
	@deploy/uninstall.sh

clean: ## remove what was made in the checkout; the prefix stays
	rm -rf build .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache \
		supervisor/opensafe/console/assets/vendor
