# syntax=docker/dockerfile:1
# Images of Orbweaver:
#   docker build --target agent      -t orbweaver-agent:0.1.0 .
#   docker build --target controller -t orbweaver-controller:0.1.0 .
# The plugin runs on whatever node there is, so it is static. The daemons bring their C library along.

FROM rust:1-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends musl-tools busybox-static \
 && rustup target add "$(uname -m)-unknown-linux-musl"
WORKDIR /src
COPY . .
ENV CARGO_INCREMENTAL=0
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    plugin_target="$(uname -m)-unknown-linux-musl" \
 && cargo build --locked --profile shim -p orbweaver-cni --bin orbweaver-cni --target "$plugin_target" \
 && cargo build --locked --release -p orbweaver-agent --bin orbweaver-agent \
 && cargo build --locked --release -p orbweaver-controller --bin orbweaver-controller --bin orbweaver-uninstall \
 && install -D -m 0755 "target/$plugin_target/shim/orbweaver-cni" /out/usr/lib/orbweaver/spiderpool \
 && install -D -m 0755 -t /out/usr/bin target/release/orbweaver-agent target/release/orbweaver-controller target/release/orbweaver-uninstall

# C library and certificates of authorities, no shell, no package manager.
FROM gcr.io/distroless/cc-debian12 AS agent
# For the init container, which copies the plugin to the node.
COPY --from=build /bin/busybox /bin/busybox
COPY --from=build /out/usr/lib/orbweaver/spiderpool /usr/lib/orbweaver/spiderpool
COPY --from=build /out/usr/bin/orbweaver-agent /usr/bin/orbweaver-agent
# Root, because the folders of socket and plugin are root's; without any capability, see the chart.
USER 0:0
ENTRYPOINT ["/usr/bin/orbweaver-agent"]

FROM gcr.io/distroless/cc-debian12:nonroot AS controller
COPY --from=build /out/usr/bin/orbweaver-controller /usr/bin/orbweaver-controller
COPY --from=build /out/usr/bin/orbweaver-uninstall /usr/bin/orbweaver-uninstall
USER 65532:65532
ENTRYPOINT ["/usr/bin/orbweaver-controller"]
