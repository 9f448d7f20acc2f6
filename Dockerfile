# The driver of a job: locally, or as the client of a Spark cluster. First `make package`, then `docker build -t penstock .`
# An image of your own has your program on top: FROM penstock, COPY prices.py /app/; docs/supervise.md runs it.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim-bookworm AS build
ARG EXTRAS=kafka,postgres,delta,iceberg
COPY dist/*.whl /wheel/
RUN python -m venv /opt/penstock \
    && /opt/penstock/bin/python -m pip install --no-cache-dir "$(ls /wheel/*.whl)[${EXTRAS}]"

FROM python:${PYTHON}-slim-bookworm
# tini is the first process: it passes signals on to the program, and waits for processes whose parents have ended.
# Spark's scripts call ps. Versions are those of the base image's release.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends procps tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home penstock
COPY --from=build /opt/penstock /opt/penstock
ENV PATH=/opt/penstock/bin:$PATH
WORKDIR /app
# By number, so that Kubernetes can see that it is not root. Nothing but /tmp need be writable.
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=15s --start-period=2m CMD ["penstock", "list", "--check"]
ENTRYPOINT ["tini", "--", "penstock"]
CMD ["doctor"]
