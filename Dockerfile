# Not built by the authors: there is no container engine on the project's machine.
# docker build -t bpe-pipeline . && docker run --rm -v "$PWD:/work" bpe-pipeline train corpus --output runs/a
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++
COPY . /source
RUN pip wheel --no-deps --wheel-dir /wheels /source
FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels pip install --no-cache-dir /wheels/*.whl
WORKDIR /work
ENTRYPOINT ["bpe-pipeline"]
