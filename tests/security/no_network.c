// Preloaded into a command and its child processes: rejects connections that leave this machine, and records them.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void note(const char *what, const char *where) {
    const char *path = getenv("NETWORK_LOG");
    char line[600], name[300] = "";
    int file = open("/proc/self/cmdline", O_RDONLY);
    if (file >= 0) {
        ssize_t size = read(file, name, sizeof name - 1);
        for (ssize_t i = 0; i + 1 < size; i++)
            if (!name[i]) name[i] = ' ';
        close(file);
    }
    int size = snprintf(line, sizeof line, "%s %s: %.250s\n", what, where, name);
    if (path && (file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600)) >= 0) {
        if (write(file, line, size) < 0) abort();
        close(file);
    }
}

static int leaves(const struct sockaddr *address, const char *what) {
    char text[INET6_ADDRSTRLEN] = "?";
    if (address == NULL) return 0;
    if (address->sa_family == AF_INET) {
        const struct in_addr *ip = &((const struct sockaddr_in *)address)->sin_addr;
        if (ntohl(ip->s_addr) >> 24 == 127 || ip->s_addr == 0) return 0;
        inet_ntop(AF_INET, ip, text, sizeof text);
    } else if (address->sa_family == AF_INET6) {
        const struct in6_addr *ip = &((const struct sockaddr_in6 *)address)->sin6_addr;
        if (IN6_IS_ADDR_LOOPBACK(ip) || IN6_IS_ADDR_UNSPECIFIED(ip)) return 0;
        if (IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == 127) return 0;
        inet_ntop(AF_INET6, ip, text, sizeof text);
    } else {
        return 0;
    }
    note(what, text);
    errno = ENETUNREACH;
    return 1;
}

static int is_local(const char *name) {
    char own[256] = "", buffer[16];
    gethostname(own, sizeof own - 1);
    return name == NULL || !*name || !strcmp(name, "localhost") || !strcmp(name, own) ||
           inet_pton(AF_INET, name, buffer) == 1 || inet_pton(AF_INET6, name, buffer) == 1;
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    if (leaves(address, "connect")) return -1;
    return ((int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect"))(fd, address, length);
}

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *address, socklen_t length) {
    if (leaves(address, "sendto")) return -1;
    return ((ssize_t(*)(int, const void *, size_t, int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "sendto"))(
        fd, data, size, flags, address, length);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    if (!is_local(name)) {
        note("resolve", name);
        return EAI_FAIL;
    }
    return ((int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(
        RTLD_NEXT, "getaddrinfo"))(name, service, hints, found);
}

struct hostent *gethostbyname(const char *name) {
    if (!is_local(name)) {
        note("resolve", name);
        return NULL;
    }
    return ((struct hostent * (*)(const char *)) dlsym(RTLD_NEXT, "gethostbyname"))(name);
}
