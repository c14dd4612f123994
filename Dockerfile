# An image with the command nimble and the Python package:
#   docker build -t nimble .                               extras table and cloud
#   docker build -t nimble --build-arg EXTRAS=all .
#   docker run --rm -v "$PWD:/data" nimble schema flights.nimble
FROM python:3.12-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
ARG EXTRAS=table,cloud
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    set -- /wheels/nimblepy-*.whl \
 && pip install --no-cache-dir "$1${EXTRAS:+[$EXTRAS]}"
RUN useradd --create-home nimble
USER nimble
WORKDIR /data
ENTRYPOINT ["nimble"]
CMD ["--help"]
