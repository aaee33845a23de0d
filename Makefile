# The two commands of the README are `make demo` and `make test`; the rest is for those who change the code.

CARGO ?= cargo
KEEP ?=
JSON ?=
# Beside what cargo builds, where the tests look for it.
HELM := $(or $(CARGO_TARGET_DIR),target)/helm-sdk

.PHONY: demo test packages binaries helm shim fmt clippy deny docs crds

# The main job, told step by step. KEEP=1 leaves it running; JSON=file writes the facts.
demo: binaries
	$(CARGO) run --quiet --bin orbweaver-load -- demo $(if $(KEEP),--keep) $(if $(JSON),--json $(JSON))

# Everything that can fail: rules, actors, agent, plugin in network namespaces, whole clusters.
test: packages binaries helm
	$(CARGO) test --workspace --no-fail-fast

# Debian's packages that the tests use: CNI main plugins, `ip` for network namespaces, pip for Helm.
packages:
	@if ! [ -x /usr/lib/cni/bridge ] || ! command -v ip >/dev/null || ! python3 -m pip --version >/dev/null 2>&1; then \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq --no-install-recommends containernetworking-plugins iproute2 python3-pip >/dev/null; \
	  else echo "note: install containernetworking-plugins, iproute2 and python3-pip (as root) to test everything"; fi; fi

# Helm as a library, pinned by its hash: what the chart is linted and rendered with.
helm: packages $(HELM)/.installed
$(HELM)/.installed: charts/helm/requirements.txt
	@rm -rf $(HELM)
	python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --only-binary :all: --require-hashes --target $(HELM) -r $<
	@rm -f $(HELM)/helm_python/lib/libhelm_c.so $(HELM)/helm_python/lib/libhelm_c.so.0  # copies of libhelm_c.so.<version>
	@touch $@

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
