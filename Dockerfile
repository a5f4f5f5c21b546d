# Image with Generic Trainer: `generic-trainer`, the container commands of TFX and Kubeflow, and Ray for KubeRay.
#
#   make image IMAGE=registry/generic-trainer:1                  TensorFlow for CPUs
#   make image IMAGE=registry/generic-trainer:1-gpu VARIANT=gpu  with CUDA libraries; the host provides the driver
#   make image IMAGE=registry/generic-trainer:1-slim VARIANT=slim  without Ray, Kubeflow Pipelines and MaxCompute
#
# To add your own modules, Python packages and Debian packages:
#
#   FROM registry/generic-trainer:1
#   USER root
#   RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
#   RUN pip install --no-cache-dir pandas-gbq
#   USER 1000
#   COPY project /home/trainer/project
#   ENV PYTHONPATH=/home/trainer
#
# pip keeps the installed versions (PIP_CONSTRAINT) and fails if a package requires others. The module is then used by
# `generic-trainer train project.taxi …` or, in a pipeline, run_fn="project.taxi.run_fn".
#
# It uses Debian's Python instead of the image `python`: scripts/check-image.sh can build this system without a container
# engine, and Debian's updates keep interpreter and libraries consistent. Debian 13, because ml-metadata and
# tensorflow-data-validation for Python 3.12 and later need glibc 2.39.
ARG BASE=debian:trixie-slim

FROM ${BASE} AS build
WORKDIR /src
COPY scripts/install-image.sh scripts/
RUN scripts/install-image.sh compiler
COPY requirements/image.txt requirements/image-cuda.txt requirements/image-slim.txt requirements/
ARG VARIANT=cpu
# A company's package index and certificates are passed as secrets (scripts/build-image.sh), not stored in the layers.
RUN --mount=type=secret,id=pip --mount=type=secret,id=certificates --mount=type=cache,target=/root/.cache/pip \
    scripts/install-image.sh dependencies "$VARIANT"
COPY . .
RUN scripts/install-image.sh project

FROM ${BASE}
RUN --mount=type=bind,source=scripts/install-image.sh,target=/src/scripts/install-image.sh \
    /src/scripts/install-image.sh runtime
COPY --from=build /opt/generic-trainer /opt/generic-trainer

# Output is unbuffered. NVIDIA_* request the driver capabilities that TensorFlow uses, on platforms with GPUs.
ENV PATH=/opt/generic-trainer/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ENV PIP_CONSTRAINT=/opt/generic-trainer/constraints.txt
ENV PYTHONUNBUFFERED=1
ENV NVIDIA_VISIBLE_DEVICES=all
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility

# A numeric ID, because Kubernetes' runAsNonRoot does not resolve names.
USER 1000
WORKDIR /home/trainer

ARG VERSION=""
ARG REVISION=""
LABEL org.opencontainers.image.title="Generic Trainer" \
    org.opencontainers.image.description="One TFX-style trainer step for every TensorFlow training module." \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"

# No entry point: Kubeflow, KubeRay and Vertex AI set the whole command.
CMD ["generic-trainer", "--help"]
