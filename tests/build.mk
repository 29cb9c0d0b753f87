# Every program and library that only tests use, and `make test`. The Makefile includes this file.

# ---- C tests ------------------------------------------------------------------------------------
# The unit tests of a folder are one program: build/dev/tests/unit/launcher-node. It links the archives of
# its part and of those below it, so that a change of a header makes as few programs anew as it can.
UNIT_FOLDERS := $(sort $(patsubst tests/unit/%/,%,$(dir $(shell find tests/unit -mindepth 2 -name 'test_*.c'))))
archives = $(1:%=$(B)/lib%.a)
ARCHIVES_common      := $(call archives,common)
ARCHIVES_launcher    := $(call archives,launcher client common)
ARCHIVES_hpo         := $(call archives,hpo launcher common)
ARCHIVES_serve       := $(call archives,serve hpo launcher common)
ARCHIVES_collectives := $(call archives,collectives comm client launcher common)
ARCHIVES_examples    := $(ARCHIVES_collectives)
define unit_program
UNIT_TESTS += $(B)/tests/unit/$(subst /,-,$(1))
$(B)/tests/unit/$(subst /,-,$(1)): $(call objs,$(wildcard tests/unit/$(1)/test_*.c) tests/unit/test_main.c) \
		$(ARCHIVES_$(firstword $(subst /, ,$(1))))
	@mkdir -p $$(@D)
	$$(call say,LINK)
	$$(Q)$(CC) $(ALL_LDFLAGS) $(TEST_LDFLAGS) -o $$@ $$^ $(LIBS_serve) $(LIBS_hpo) $(LIBS_collectives) $(LIBS_launcher) $(LIBS_common)
endef
$(foreach f,$(UNIT_FOLDERS),$(eval $(call unit_program,$(f))))

# Other tests are one program per file.
OTHER_TESTS := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/sim/test_*.c tests/plan/test_*.c tests/causes/test_*.c \
                 tests/fault/test_*.c tests/fuzz/fuzz_*.c))
$(B)/libtest.a: $(call objs,tests/unit/test_main.c)
	@rm -f $@; ar rcs $@ $^
$(OTHER_TESTS): $(B)/tests/%: $(B)/obj/tests/%.o $(call archives,test collectives comm client serve hpo launcher common)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) $(TEST_LDFLAGS) -o $@ $^ $(LIBS_hpo) $(LIBS_collectives) $(LIBS_launcher) $(LIBS_common)

# The same harnesses for clang's libFuzzer, which searches by coverage: .ci/run calls this.
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/fuzzers/%,$(shell grep -l FUZZ_ENGINE tests/fuzz/fuzz_*.c))
$(B)/obj/fuzzers/%.o: tests/fuzz/%.c $(STAMP)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CFLAGS) -DFUZZ_ENGINE -MMD -MP -c -o $@ $<
$(FUZZERS): $(B)/fuzzers/%: $(B)/obj/fuzzers/%.o $(call archives,collectives comm client serve hpo launcher common)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS_hpo) $(LIBS_collectives) $(LIBS_launcher) $(LIBS_common)
fuzzers: $(FUZZERS)
.PHONY: fuzzers

# ---- libraries that tests load ------------------------------------------------------------------
# Vendors' libraries without the hardware, which the tests load with dlopen.
$(B)/obj/tests/fake/%.o: EXTRA_CFLAGS := -isystem $(CUDA_HOME)/include -isystem $(NCCL_HOME)/include \
                                         -fvisibility=default -Wno-missing-prototypes
$(B)/tests/fake/libnvidia-ml.so.1: $(B)/obj/tests/fake/nvml.o
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -o $@ $^
$(B)/tests/fake/%.so: $(B)/obj/tests/fake/%.o
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -o $@ $^ -lpthread
# The real cuDNN without a GPU: what it needs of the driver, and all its functions but one.
$(B)/tests/fake/cudnn/libcuda.so.1: $(B)/obj/tests/fake/cuda_driver.o
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -o $@ $^
$(B)/obj/tests/fake/cudnn_execute.o: EXTRA_CFLAGS += -isystem $(CUDNN_INCLUDE)
$(B)/tests/fake/cudnn/libcudnn.so.9: $(B)/obj/tests/fake/cudnn_execute.o
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -o $@ $^ -Wl,--no-as-needed -L$(CUDNN_LIB) -l:libcudnn_graph.so.9 -Wl,-rpath,$(CUDNN_LIB)
FAKES := $(if $(ATTEND_CUDNN),$(if $(wildcard $(CUDNN_LIB)/libcudnn_graph.so.9),$(addprefix $(B)/tests/fake/cudnn/,libcuda.so.1 libcudnn.so.9))) \
         $(B)/tests/fake/libnvidia-ml.so.1 $(if $(HAVE_NCCL),$(B)/tests/fake/nccl.so $(B)/tests/fake/nccl_old.so)

# Libraries for LD_PRELOAD: faults of system calls and of disks.
$(B)/obj/tests/fault/preload/%.o: EXTRA_CFLAGS := -fvisibility=default -Wno-missing-prototypes -U_FORTIFY_SOURCE
$(B)/tests/fault/preload/%.so: $(B)/obj/tests/fault/preload/%.o
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -o $@ $^ -ldl
PRELOADS := $(patsubst %.c,$(B)/%.so,$(wildcard tests/fault/preload/*.c))

# ---- CUDA code on the host ----------------------------------------------------------------------
# CUDA code on the host: tests/cudahost. A test is one file and three programs: plain, under AddressSanitizer and under
# ThreadSanitizer. The runtime itself is not instrumented.
HAVE_CUDA := $(wildcard $(CUDA_HOME)/include/cublasLt.h)
CUDAHOST := $(B)/tests/cudahost
CUDAHOST_OBJ := $(B)/obj/tests/cudahost
CUDAHOST_CXX := -std=c++17 -g -fPIC -fvisibility=hidden -Wall -Wextra -Wno-unused-function -Wno-unknown-pragmas -Wno-missing-field-initializers $(if $(WERROR),-Werror) -I. -Itests/cudahost \
                -isystem $(CUDA_HOME)/include $(patsubst -I%,-isystem %,$(shell pkg-config --cflags openblas)) -MMD -MP
CUDAHOST_RUNTIME := $(patsubst tests/cudahost/%.cc,$(CUDAHOST_OBJ)/%.o,$(filter-out %_access.cc,$(wildcard tests/cudahost/cudahost_*.cc)))
CUDAHOST_LIBS := -lopenblas -lm
CUDAHOST_TESTS := $(patsubst tests/cudahost/%.cc,%,$(wildcard tests/cudahost/test_*.cc) tests/cudahost/faulty.cc tests/cudahost/planted.cc)
$(CUDAHOST_OBJ)/cudahost_%.o: tests/cudahost/cudahost_%.cc $(STAMP)
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(CXX) $(CUDAHOST_CXX) -O2 -c -o $@ $<
# What tests compare with: the examples without their main programs.
$(B)/libexamples.a: $(call objs,$(filter-out %/main.c,$(wildcard examples/*/*.c)))
	@rm -f $@; ar qcs $@ $^ # not r: files of two folders may have one name
CUDAHOST_C := $(call objs,$(filter-out %_main.c,$(wildcard tests/cudahost/*.c)))
define cudahost_variant
$(CUDAHOST_TESTS:%=$(CUDAHOST_OBJ)/%$(1).o): $(CUDAHOST_OBJ)/%$(1).o: tests/cudahost/%.cc $(STAMP)
	@mkdir -p $$(@D)
	$$(call say,CXX)
	$$(Q)$$(CXX) $$(CUDAHOST_CXX) -O1 $(2) -include tests/cudahost/cudahost.h -c -o $$@ $$<
$(CUDAHOST_TESTS:%=$(CUDAHOST)/%$(1)): $(CUDAHOST)/%$(1): $(CUDAHOST_OBJ)/%$(1).o $(CUDAHOST_RUNTIME) $(3) $(CUDAHOST_C) $(B)/libtest.a $(B)/libexamples.a
	@mkdir -p $$(@D)
	$$(call say,LINK)
	$$(Q)$$(CXX) $(2) -o $$@ $$^ $(CUDAHOST_LIBS)
CUDAHOST_PROGRAMS += $(CUDAHOST_TESTS:%=$(CUDAHOST)/%$(1))
endef
$(eval $(call cudahost_variant,,))
$(eval $(call cudahost_variant,-asan,-fsanitize=address))
$(eval $(call cudahost_variant,-tsan,-fsanitize=thread,$(CUDAHOST_OBJ)/cudahost_access.o))
# Libraries of CUDA code for programs without a GPU, by the name that they have with nvcc.
CUDAHOST_LIBRARIES := $(patsubst %,$(CUDAHOST)/%.so,$(basename $(notdir $(wildcard examples/*/*_cuda.cu)))) $(CUDAHOST)/nccl_kernels.so
vpath %.cu $(sort $(dir $(wildcard examples/*/*.cu))) collectives/backends/nccl
$(CUDAHOST_LIBRARIES): $(CUDAHOST)/%.so: %.cu $(CUDAHOST_RUNTIME) $(STAMP)
	@mkdir -p $(@D) $(CUDAHOST_OBJ)
	$(call say,CXX)
	$(Q)$(CXX) $(CUDAHOST_CXX) -MF $(CUDAHOST_OBJ)/$*.d -O2 -x c++ -include tests/cudahost/cudahost.h -shared -o $@ $< -x none $(CUDAHOST_RUNTIME) $(CUDAHOST_LIBS)
# Next to gpt_cuda.so: attention on the host.
$(CUDAHOST)/attend_cudnn.so: tests/cudahost/attend_host.cc $(STAMP)
	@mkdir -p $(@D) $(CUDAHOST_OBJ)
	$(call say,CXX)
	$(Q)$(CXX) $(CUDAHOST_CXX) -MF $(CUDAHOST_OBJ)/attend_host.d -O2 -shared -o $@ $<
# The runtime and cuBLASLt by themselves, for programs that load them: DROVER_CUDART_LIB and DROVER_CUBLASLT_LIB.
$(CUDAHOST)/cuda_libs.so: $(filter-out %_access.cc,$(wildcard tests/cudahost/cudahost_*.cc)) $(wildcard tests/cudahost/*.h) $(STAMP)
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(CXX) $(filter-out -MMD -MP,$(CUDAHOST_CXX)) -fvisibility=default -O2 -shared -o $@ $(filter %.cc,$^) $(CUDAHOST_LIBS)
# With another sanitizer there are the libraries only.
CUDAHOST_ALL := $(if $(HAVE_CUDA),$(CUDAHOST_LIBRARIES) $(addprefix $(CUDAHOST)/,cuda_libs.so attend_cudnn.so) $(if $(SAN),,$(CUDAHOST_PROGRAMS)))

# ---- programs that ranks run --------------------------------------------------------------------
# The conformance kit: a program that ranks run, over any backend.
CONFORM := $(B)/tests/conform
$(B)/tests/conform: $(call objs,$(wildcard tests/conform/*.c)) $(B)/libcollectives.a $(B)/libcomm.a $(B)/libclient.a $(B)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_collectives) \
	    $(shell pkg-config --libs pmix) $(LIBS_common) -lpthread $(call bundled,../../lib/bundled)

# The operations of examples/gpt on any GPU library, for scripts/gpu-check.
GPT_VECTORS := $(B)/tests/gpt_vectors
$(GPT_VECTORS): $(call objs,tests/cudahost/gpt_attention.c tests/cudahost/gpt_vectors.c tests/cudahost/gpt_vectors_main.c examples/gpt/ops_load.c) $(B)/libcomm.a $(B)/libclient.a $(B)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_common) -ldl -lm -lpthread $(call bundled,../../lib/bundled)

# ---- all of them --------------------------------------------------------------------------------
tests: all $(UNIT_TESTS) $(OTHER_TESTS) $(FAKES) $(PRELOADS) $(CONFORM) $(GPT_VECTORS) $(CUDAHOST_ALL)
.PHONY: tests
test: tests
	tests/run --build $(B) $(T)
