# An image with drover, built from this source: docs/containers.md.
#
#   docker build -t drover .
#   docker run --rm drover run -np 2 sh -c 'echo rank $RANK'
ARG BASE=debian:12

FROM ${BASE} AS build
WORKDIR /src
COPY . .
RUN scripts/setup && apt-get install -y --no-install-recommends dpkg-dev && make -s -j"$(nproc)" deb

FROM ${BASE}
COPY --from=build /src/build/deb/*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/*.deb libopenmpi3 openssh-client && rm -rf /tmp/*.deb /var/lib/apt/lists/*
ENTRYPOINT ["drover"]
CMD ["--help"]
