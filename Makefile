# The whole build, with tests/build.mk and the build.mk of examples. `make help` lists the targets and the variables.
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

VERSION := 0.2.0
# The date of what is packed: the same commit gives the same bytes.
EPOCH = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y Makefile))
PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= cc
ifeq ($(origin CC),default)
CC := gcc
endif
comma := ,
MODE := $(if $(SAN),san-$(subst $(comma),-,$(SAN)),dev)$(if $(filter-out gcc cc,$(notdir $(CC))),-$(notdir $(CC)))
B := build/$(MODE)
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $@)

# ---- what is on this machine -------------------------------------------------------------------
PKGS := hwloc pmix libuv libsodium libzmq sqlite3 jansson yaml-0.1 libpcre2-8
ifneq ($(MAKECMDGOALS),clean)
MISSING := $(shell for p in $(PKGS) gsl openblas; do pkg-config --exists $$p || echo $$p; done)
ifneq ($(MISSING),)
$(error not found by pkg-config: $(MISSING); run scripts/setup, which installs them)
endif
endif
-include build/cuda.mk
CUDA_HOME ?= $(firstword $(wildcard /usr/local/cuda /opt/cuda))
NVCC := $(if $(CUDA_HOME),$(wildcard $(CUDA_HOME)/bin/nvcc))
NCCL_HOME ?= $(if $(wildcard $(CUDA_HOME)/include/nccl.h),$(CUDA_HOME),/usr)
HAVE_NCCL := $(and $(wildcard $(CUDA_HOME)/include/cuda_runtime.h),$(wildcard $(NCCL_HOME)/include/nccl.h))
HAVE_MPI := $(shell pkg-config --exists ompi-c && echo yes)
HAVE_SERVE := $(shell pkg-config --exists libmicrohttpd zlib && echo yes)

# ---- flags -------------------------------------------------------------------------------------
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wpointer-arith \
        -Wvla -Wformat=2 -Wno-unused-parameter -Wno-format-nonliteral
WERROR ?=
OPT ?= -O2 -g
CFLAGS ?=
# What Debian's dpkg-buildflags sets. A sanitizer replaces the fortified functions by its own.
HARDEN := -fstack-protector-strong -Wformat -Werror=format-security $(if $(SAN),,-D_FORTIFY_SOURCE=2)
ALL_CFLAGS := -std=gnu17 -D_GNU_SOURCE -DDROVER_BUILD -DDROVER_VERSION='"$(VERSION)"' -I. $(OPT) $(HARDEN) $(WARN) $(if $(WERROR),-Werror) -fPIC \
              -fvisibility=hidden $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer) \
              $(if $(findstring thread,$(SAN)),$(if $(findstring clang,$(CC)),,-Wno-tsan)) \
              $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(PKGS) gsl openblas)) $(CFLAGS)
# Functions that shared libraries find here instead of in libc or themselves: launcher/pmi/interpose.h.
INTERPOSED := bind accept pmix_ptl_base_send_blocking register_printf_type
ALL_LDFLAGS := $(if $(SAN),-fsanitize=$(SAN)) -Wl,-z,relro -Wl,--as-needed $(INTERPOSED:%=-Wl,--export-dynamic-symbol=%) $(LDFLAGS)
# Where the programs of a bundle look for libraries (BUNDLED=1). Others do not: to look takes a fiftieth of a job's start.
bundled = $(if $(BUNDLED),-Wl$(comma)-rpath$(comma)'$$ORIGIN/$(1)')
LIBS_common   := $(shell pkg-config --libs jansson yaml-0.1 libuv libzmq) -lm
LIBS_launcher := $(shell pkg-config --libs hwloc libuv jansson libsodium) -ldl -lpthread
LIBS_hpo      := $(shell pkg-config --libs libzmq yaml-0.1 sqlite3 libpcre2-8) -lgsl -lopenblas
LIBS_collectives := $(shell pkg-config --libs pmix) -ldl
LIBS_serve    := $(if $(HAVE_SERVE),$(shell pkg-config --libs libmicrohttpd zlib)) -lpthread

# Objects are rebuilt when the flags change; what builds nothing has none. (-Wno-tsan: what fences order is
# memory of two processes, which no thread sanitizer sees.)
STAMP := $(B)/flags
ifneq ($(filter-out clean help check-layers check-english check-docs check-tree check-format format,$(or $(MAKECMDGOALS),all)),)
FLAGS_NOW := $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(HAVE_NCCL) $(NVCC) $(HAVE_MPI) $(HAVE_SERVE)
$(shell mkdir -p $(B); printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' | cmp -s - $(STAMP) || printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' > $(STAMP))
endif

# ---- what there is -----------------------------------------------------------------------------
objs = $(patsubst %.c,$(B)/obj/%.o,$(1))
MAINS := launcher/main.c hpo/main.c collectives/bench/cmd/main.c serve/main.c
SRC_common      := $(wildcard common/*.c)
# Replacements that one program has: as members of a library they would replace the function everywhere.
INTERPOSE_hpo   := launcher/pmi/interpose_printf.c
SRC_launcher    := $(filter-out launcher/client/% $(INTERPOSE_hpo),$(wildcard launcher/*/*.c launcher/*/*/*.c))
SRC_client      := $(wildcard launcher/client/*.c)
SRC_hpo         := $(filter-out $(MAINS),$(wildcard hpo/*.c hpo/*/*.c))
SRC_serve       := $(filter-out $(MAINS) $(if $(HAVE_SERVE),,serve/serve_http.c serve/cmd_serve.c serve/report/sweep_report_data.c serve/report/cmd_report.c),$(wildcard serve/*.c serve/*/*.c))
SRC_comm        := $(wildcard collectives/bootstrap/*.c collectives/comm/*.c collectives/backends/self/*.c)
# Parts of the plug-in without CUDA's headers, for the unit tests.
NCCL_PURE := $(patsubst %,collectives/backends/nccl/nccl_%.c,first_use precheck)
SRC_collectives := $(filter-out $(MAINS),$(wildcard collectives/bench/*.c collectives/bench/*/*.c)) $(NCCL_PURE)

PROGRAMS := $(if $(wildcard launcher/main.c),$(B)/bin/drover) \
            $(if $(wildcard hpo/main.c),$(B)/libexec/drover/drover-hpo) \
            $(if $(HAVE_SERVE),$(B)/libexec/drover/drover-serve) \
            $(if $(wildcard collectives/bench/cmd/main.c),$(B)/libexec/drover/drover-bench)
PLUGINS  := $(if $(and $(HAVE_MPI),$(wildcard collectives/backends/mpi/*.c)),$(B)/lib/drover/backend_mpi.so) \
            $(if $(and $(HAVE_NCCL),$(wildcard collectives/backends/nccl/*.c)),$(B)/lib/drover/backend_nccl.so \
            $(if $(NVCC),$(B)/lib/drover/nccl_kernels.so))
LIBDROVER := $(if $(wildcard launcher/client/client.c),$(B)/lib/libdrover.so.0 $(B)/lib/libdrover.so)

# What users find in share/drover: modules of Python, the schema of sweep files, rules and a dashboard for Prometheus and
# Grafana.
SHARE := launcher/client/drover.py launcher/engine/ft_bridge.py hpo/exchange/drover_exchange.py hpo/exchange/drover_import.py \
         hpo/spec/sweep.schema.json launcher/metrics/alerts.yml launcher/metrics/grafana.json
PYTHON_TRIAL := $(shell find hpo/python -name '*.py' -o -name METADATA)

# With a sanitizer the programs are for tests only.
MANUAL := $(if $(SAN),,$(B)/share/manual)

all: $(PROGRAMS) $(LIBDROVER) $(PLUGINS) $(B)/share/drover $(B)/share/drover/web $(MANUAL)
.PHONY: all test install uninstall clean format tidy check

$(B)/obj/%.o: %.c $(STAMP)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA_CFLAGS) -MMD -MP -c -o $@ $<

# What a collective of two microseconds runs through calls other libraries without the linker's stubs: 0.03 us less.
NO_STUBS := -fno-plt
$(B)/obj/collectives/bootstrap/%.o $(B)/obj/collectives/comm/%.o $(B)/obj/collectives/backends/self/%.o \
$(B)/obj/launcher/client/%.o: EXTRA_CFLAGS := $(NO_STUBS)

# Loops over arrays: without errno and traps they run on vector units.
$(B)/obj/hpo/model/matern.o: EXTRA_CFLAGS := -O3 -fno-math-errno -fno-trapping-math -fopenmp-simd

define archive
$(B)/lib$(1).a: $(call objs,$(SRC_$(1)))
	@rm -f $$@; ar rcs $$@ $$^
endef
$(foreach a,common launcher client hpo comm collectives serve,$(eval $(call archive,$(a))))

# ---- programs ----------------------------------------------------------------------------------
$(B)/bin/drover: $(B)/obj/launcher/main.o $(B)/liblauncher.a $(B)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_launcher) $(LIBS_common) $(call bundled,../lib/bundled)

$(B)/libexec/drover/drover-hpo: $(call objs,hpo/main.c $(INTERPOSE_hpo)) $(B)/libhpo.a $(B)/liblauncher.a $(B)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_hpo) $(LIBS_launcher) $(LIBS_common) $(call bundled,../../lib/bundled)

$(B)/libexec/drover/drover-serve: $(B)/obj/serve/main.o $(B)/libserve.a $(B)/libhpo.a $(B)/liblauncher.a $(B)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_serve) $(LIBS_hpo) $(LIBS_launcher) $(LIBS_common) $(call bundled,../../lib/bundled)

$(B)/libexec/drover/drover-bench: $(B)/obj/collectives/bench/cmd/main.o $(B)/libcollectives.a $(B)/libcomm.a \
		$(B)/libclient.a $(B)/liblauncher.a $(B)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_collectives) $(LIBS_launcher) $(LIBS_common) $(call bundled,../../lib/bundled)

# ---- libdrover: what a training program links ----------------------------------------------------
$(B)/lib/libdrover.so.0: $(call objs,$(SRC_client) $(SRC_comm)) $(B)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -Wl,-soname,libdrover.so.0 -Wl,--exclude-libs,ALL -o $@ $^ \
	    $(shell pkg-config --libs pmix) -ldl $(call bundled,bundled)

$(B)/lib/libdrover.so: $(B)/lib/libdrover.so.0
	@ln -sf libdrover.so.0 $@

# ---- Python files --------------------------------------------------------------------------------
$(B)/share/drover: Makefile
	@mkdir -p $@
	@touch $@
	@ln -sfn $(CURDIR)/hpo/python $@/trial
	@for f in $(SHARE); do ln -sfn $(CURDIR)/$$f $@/; done

# ---- manual pages, completion and what coding agents read, from the rows of options and docs ----------
$(B)/share/manual: $(PROGRAMS) scripts/manual scripts/catalogue.py scripts/agent_files.py scripts/documents.py \
		$(wildcard docs/drover-*.md) $(patsubst %,docs/%.md,commands environment skill)
	$(call say,MAN)
	@rm -rf $@
	$(Q)SOURCE_DATE_EPOCH=$(EPOCH) scripts/manual $(B)/bin/drover $(VERSION) $@

# ---- the page of `drover serve` ----------------------------------------------------------------------
# d3 comes from Debian's node-d3 and is never committed. Without it everything is built, and `serve` says what is missing.
WEB := $(wildcard serve/web/*)
D3  := $(wildcard /usr/share/nodejs/d3/dist/d3.min.js)
D3_LICENSE := $(wildcard /usr/share/doc/node-d3/copyright)
$(B)/share/drover/web: $(WEB) $(D3) serve/web
	@rm -rf $@; mkdir -p $@
	@ln -s $(WEB:%=$(CURDIR)/%) $@/
	$(if $(D3),@ln -s $(D3) $@/d3.min.js; ln -s $(D3_LICENSE) $@/d3.LICENSE.txt)

# ---- plug-ins ----------------------------------------------------------------------------------
MPI_CFLAGS := $(if $(HAVE_MPI),$(patsubst -I%,-isystem %,$(shell pkg-config --cflags ompi-c)))
$(B)/obj/collectives/backends/mpi/%.o: EXTRA_CFLAGS := $(MPI_CFLAGS) $(NO_STUBS)
$(B)/lib/drover/backend_mpi.so: $(call objs,$(wildcard collectives/backends/mpi/*.c)) $(B)/libcomm.a $(B)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -Wl,--exclude-libs,ALL -o $@ $^ \
	    $(shell pkg-config --libs ompi-c) $(call bundled,../bundled)

$(B)/obj/collectives/backends/nccl/%.o: EXTRA_CFLAGS := -isystem $(CUDA_HOME)/include -isystem $(NCCL_HOME)/include
$(B)/lib/drover/backend_nccl.so: $(call objs,$(wildcard collectives/backends/nccl/*.c)) $(B)/libcomm.a $(B)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -Wl,--exclude-libs,ALL -o $@ $^ -ldl -lpthread

# nvcc links its CUDA runtime statically, so the plug-in itself still links no CUDA.
$(B)/lib/drover/nccl_kernels.so: collectives/backends/nccl/nccl_kernels.cu collectives/backends/nccl/nccl_kernels.h \
		$(patsubst %,collectives/comm/%.h,device_function float16 premul ulps) collectives/drover.h $(STAMP)
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(NVCC) $(if $(WERROR),-Werror all-warnings) -O3 -std=c++17 -I. -shared -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-static-libstdc++ \
	    -arch=all-major -Wno-deprecated-gpu-targets -Xlinker -rpath='$$ORIGIN/../bundled' -o $@ $<

# ---- examples: each folder with a Makefile fragment of its own -----------------------------------
-include $(wildcard examples/*/build.mk)

# ---- tests -------------------------------------------------------------------------------------
# tests/build.mk defines UNIT_TESTS and the other programs of the tests, `tests`, `test` and `fuzzers`.
include tests/build.mk

# ---- checks ------------------------------------------------------------------------------------
FORMATTED = $(shell cd scripts && python3 -B -c 'from sources import *; print(*sources(".c", ".h"))')
CHECKS := layers names pure english commands docs
.PHONY: $(CHECKS:%=check-%) check-tree check-format
$(CHECKS:%=check-%): check-%:
	scripts/check-$* $(B)
check-tree:
	scripts/tree --check
check-names check-pure check-commands: all
check-format:
	@case "$$(clang-format --version 2>&1)" in *'version 14.'*) clang-format --dry-run --Werror $(FORMATTED) ;; \
	*) echo 'check-format: skipped: clang-format 14 is not installed' ;; esac
format:
	clang-format -i $(FORMATTED)
check: $(CHECKS:%=check-%) check-tree check-format

# clang-tidy reads a file again only if the file, a header of it or the rules have changed.
TIDY_SOURCES = $(filter %.c,$(filter-out examples/% tests/% collectives/backends/nccl/% collectives/backends/mpi/%,$(FORMATTED)))
$(B)/tidy/%.stamp: %.c $(B)/obj/%.o .clang-tidy
	@mkdir -p $(@D)
	$(call say,TIDY)
	$(Q)clang-tidy --quiet $< -- $(ALL_CFLAGS) 2>/dev/null
	@touch $@
tidy: $(TIDY_SOURCES:%.c=$(B)/tidy/%.stamp)

# For editors and clangd: one entry per C file, with the flags of this build.
compile_commands.json: $(STAMP)
	@scripts/compile-commands $@ $(CC) $(ALL_CFLAGS) $(MPI_CFLAGS) -isystem $(CUDA_HOME)/include -isystem $(NCCL_HOME)/include

define HELP
make                      build into $(B)
make test                 build and run every test that needs no GPU
make test T='--only unit' the arguments of tests/run: folders, words of names, or pytest's arguments
make check                check layers, names, purity, English, commands, pages, folders and format
make tidy                 clang-tidy; reads only what has changed
make format               clang-format all C files
make install PREFIX=/usr/local [DESTDIR=]
make uninstall PREFIX=/usr/local [DESTDIR=]
make bundle               a folder that runs where nothing is installed (docs/bundle.md)
make deb, make wheel, make dist   a Debian package, a Python wheel, the source (docs/packages.md)
make compile_commands.json  for editors and clangd
make clean                remove what was built

SAN=address,undefined or SAN=thread   build with sanitizers, into a folder of its own
WERROR=1   warnings are errors     V=1   print each command
CC=clang   another compiler        CFLAGS=, LDFLAGS=, OPT=   further flags
endef
help:
	@: $(info $(HELP))
.PHONY: help compile_commands.json

# ---- install -----------------------------------------------------------------------------------
D := $(DESTDIR)$(PREFIX)
# Links by the names of nccl-tests' programs, also as builds with MPI name them (all_reduce_perf_mpi): one per
# collective that is measured, and its hypercube.
PERF := hypercube $(filter-out barrier send recv,$(shell sed -n 's/.*{\.name = "\([a-z_]*\)".*/\1/p' collectives/comm/collective.c))
install: all
	install -d $(D)/bin $(D)/libexec/drover/bin $(D)/lib/drover $(D)/lib/pkgconfig $(D)/include $(D)/share/drover
	install -m 755 $(B)/bin/drover $(D)/bin/
	install -m 755 $(B)/libexec/drover/drover-* $(D)/libexec/drover/
	for name in mpirun mpiexec mpirun.openmpi orterun mpiexec.hydra torchrun ft_launcher $(PERF:=_perf) $(PERF:=_perf_mpi); do ln -sf ../../../bin/drover $(D)/libexec/drover/bin/$$name; done
	install -m 755 $(B)/lib/libdrover.so.0 $(D)/lib/
	ln -sf libdrover.so.0 $(D)/lib/libdrover.so
	for p in $(PLUGINS); do install -m 755 $$p $(D)/lib/drover/; done
	install -m 644 collectives/drover.h launcher/client/client.h $(D)/include/
	install -m 644 $(SHARE) $(D)/share/drover/
	install -d $(D)/share/drover/web
	install -m 644 $(WEB) $(D)/share/drover/web/
	$(if $(D3),install -m 644 $(D3) $(D)/share/drover/web/d3.min.js && install -m 644 $(D3_LICENSE) $(D)/share/drover/web/d3.LICENSE.txt)
	for f in $(PYTHON_TRIAL); do install -D -m 644 $$f $(D)/share/drover/trial/$${f#hpo/python/}; done
	$(if $(MANUAL),cd $(MANUAL) && find . -type f -exec install -D -m 644 {} $(abspath $(D))/share/{} ';')
	printf 'prefix=$${pcfiledir}/../..\nlibdir=$${prefix}/lib\nincludedir=$${prefix}/include\n\nName: drover\nDescription: ranks, communicators and metrics of a drover job\nVersion: %s\nLibs: -L$${libdir} -ldrover\nCflags: -I$${includedir}\n' \
	    '$(VERSION)' > $(D)/lib/pkgconfig/drover.pc

# Removes what the present version installs, and the folders that are drover's alone.
INSTALLED := $(B)/installed
uninstall:
	rm -rf $(INSTALLED)
	+$(MAKE) --no-print-directory -s install DESTDIR='$(CURDIR)/$(INSTALLED)'
	cd $(INSTALLED)$(abspath $(PREFIX)) && find . ! -type d -exec sh -c 'cd "$$0" && rm -f "$$@"' $(abspath $(D)) {} +
	rm -rf $(INSTALLED) $(D)/share/drover $(D)/lib/drover $(D)/libexec/drover

# A folder that runs where nothing is installed: docs/bundle.md.
BUNDLE := build/bundle/drover-$(VERSION)-linux-x86_64
# Its programs are linked once more, from the objects of this build. What nvcc has made fits as it is.
bundle: all $(CONFORM) $(GPT_VECTORS)
	mkdir -p $(B)/bundle
	ln -sfn ../obj ../flags $(B)/bundle/
	cd $(B) && find lib examples -name nccl_kernels.so -o -name '*_cuda.so' | xargs -r cp -p --parents -t bundle
	+$(MAKE) --no-print-directory B=$(B)/bundle BUNDLED=1 bundle-tree
bundle-tree: all $(CONFORM) $(GPT_VECTORS)
	rm -rf $(BUNDLE)
	+$(MAKE) --no-print-directory -s install DESTDIR= PREFIX='$(CURDIR)/$(BUNDLE)'
	scripts/bundle $(B) $(BUNDLE)

# Packages: docs/packages.md.
wheel: bundle
	SOURCE_DATE_EPOCH=$(EPOCH) scripts/wheel $(BUNDLE) $(VERSION) build/wheel

deb: all
	rm -rf build/deb
	+$(MAKE) --no-print-directory -s install DESTDIR='$(CURDIR)/build/deb/root' PREFIX=/usr
	SOURCE_DATE_EPOCH=$(EPOCH) scripts/deb build/deb/root $(VERSION) build/deb/drover_$(VERSION)_$(shell dpkg --print-architecture).deb
	rm -rf build/deb/root build/deb/work

# The project's files (scripts/sources.py), in their order.
DIST := build/dist/drover-$(VERSION)
dist:
	mkdir -p $(dir $(DIST))
	cd scripts && python3 -B -c 'from sources import *; print(*sources(""), sep="\n")' >../$(DIST).files
	tar --no-recursion --files-from=$(DIST).files --transform='s,^,drover-$(VERSION)/,S' --mtime=@$(EPOCH) --owner=0 --group=0 \
	    --numeric-owner --mode=u+rw,go=rX --format=gnu -I 'gzip -9n' -cf $(DIST).tar.gz
.PHONY: bundle bundle-tree wheel deb dist

clean:
	rm -rf $(filter-out build/cuda build/cuda.mk,$(wildcard build/*))

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
