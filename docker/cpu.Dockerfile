# hearthd for the CPU, in two stages. From the repository's root:
#   docker build -f docker/cpu.Dockerfile -t hearth:cpu .
#   docker run --rm -p 127.0.0.1:8080:8080 -v /path/to/models:/models:ro hearth:cpu --model /models/MODEL.gguf
ARG DEBIAN=bookworm

FROM debian:${DEBIAN}-slim AS build
WORKDIR /src
COPY docker/install-deps.sh docker/
RUN docker/install-deps.sh build
COPY . .
RUN cmake --preset release -DHEARTH_TESTS=OFF \
 && cmake --build --preset release --target hearthd hearth-profiler \
 && strip build/release/hearthd build/release/hearth-profiler

FROM debian:${DEBIAN}-slim
COPY docker/install-deps.sh /tmp/
RUN /tmp/install-deps.sh runtime && rm -rf /tmp/install-deps.sh /var/lib/apt/lists/* \
 && useradd --uid 1000 --create-home hearth && mkdir /models /cache && chown hearth /cache
COPY --from=build /src/build/release/hearthd /src/build/release/hearth-profiler /usr/local/bin/
USER 1000
ENV HEARTH_HOST=0.0.0.0 XDG_CACHE_HOME=/cache
VOLUME /cache
EXPOSE 8080
# The daemon binds before it loads and answers 503 meanwhile; a large model may take its time.
HEALTHCHECK --start-period=10m --interval=15s --timeout=5s CMD ["hearthd", "--healthcheck"]
ENTRYPOINT ["hearthd"]
