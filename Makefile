# The two commands of the README are `make demo` and `make test`; the rest is for those who change the code.

CARGO ?= cargo
KEEP ?=
JSON ?=

.PHONY: demo test packages binaries shim fmt clippy deny docs crds ci

# The main job, told step by step. KEEP=1 leaves it running; JSON=file writes the facts.
demo: binaries
	$(CARGO) run --quiet --bin orbweaver-load -- demo $(if $(KEEP),--keep) $(if $(JSON),--json $(JSON))

# Everything that can fail: rules, actors, agent, plugin in network namespaces, whole clusters.
test: packages binaries
	$(CARGO) test --workspace --no-fail-fast

# Debian's packages that the end-to-end tests use: CNI main plugins, and `ip` for network namespaces.
packages:
	@if ! [ -x /usr/lib/cni/bridge ] || ! command -v ip >/dev/null; then \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq --no-install-recommends containernetworking-plugins iproute2 >/dev/null; \
	  else echo "note: install containernetworking-plugins and iproute2 (as root) to test in network namespaces"; fi; fi

# The programs that demo and end-to-end tests start.
binaries:
	$(CARGO) build --workspace --bins

# The plugin as it is shipped.
shim:
	$(CARGO) build --profile shim --bin orbweaver-cni

fmt:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --workspace --all-targets -- -D warnings

deny:
	$(CARGO) deny check bans licenses sources

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

# Writes charts/orbweaver/crds from the types of api/.
crds:
	$(CARGO) run --quiet --bin crdgen -- charts/orbweaver/crds
