# nats-server and the libraries it is linked with, nothing else: no shell, no package manager, nothing to patch.
# The context is a folder `root` with `/nats-server` in it (test/support/servers/nats-image.ts makes it); the configuration is
# mounted or copied to /nats.conf, and /data is the store.
FROM scratch
COPY root/ /
EXPOSE 4222 6222 8222
ENTRYPOINT ["/nats-server", "-c", "/nats.conf"]
