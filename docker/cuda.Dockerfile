# hearthd with CUDA, in two stages. Needs NVIDIA's container toolkit on the host. From the repository's root:
#   docker build -f docker/cuda.Dockerfile -t hearth:cuda .
#   docker run --rm --gpus all --ulimit memlock=-1 -p 127.0.0.1:8080:8080 -v /path/to/models:/models:ro \
#     hearth:cuda --model /models/MODEL.gguf
# Without a GPU it serves from the CPU, as hearth:cpu does.
ARG DEBIAN=bookworm

FROM debian:${DEBIAN}-slim AS build
WORKDIR /src
COPY docker/install-deps.sh docker/
RUN docker/install-deps.sh --cuda build
COPY . .
RUN cmake --preset release -DHEARTH_TESTS=OFF -DHEARTH_CUDA=ON -DHEARTH_CUDA_ARCHITECTURES=release \
 && cmake --build --preset release --target hearthd hearth-profiler \
 && strip build/release/hearthd build/release/hearth-profiler

FROM debian:${DEBIAN}-slim
COPY docker/install-deps.sh /tmp/
RUN /tmp/install-deps.sh runtime && rm -rf /tmp/install-deps.sh /var/lib/apt/lists/* \
 && useradd --uid 1000 --create-home hearth && mkdir /models /cache && chown hearth /cache
COPY --from=build /src/build/release/hearthd /src/build/release/hearth-profiler /usr/local/bin/
USER 1000
# CUDA's runtime is in hearthd; NVIDIA's container toolkit brings the driver, asked for by these two.
ENV HEARTH_HOST=0.0.0.0 XDG_CACHE_HOME=/cache NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
VOLUME /cache
EXPOSE 8080
# The daemon binds before it loads and answers 503 meanwhile; a large model may take its time.
HEALTHCHECK --start-period=10m --interval=15s --timeout=5s CMD ["hearthd", "--healthcheck"]
ENTRYPOINT ["hearthd"]
