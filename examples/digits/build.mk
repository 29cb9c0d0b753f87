# Builds examples/digits: the trainer, and its GPU implementation if there is a CUDA toolkit.
DIGITS := $(B)/examples/digits
DIGITS_OBJS := $(patsubst %.c,$(B)/obj/%.o,$(wildcard examples/digits/*.c))
# The example is compiled as a user's program would be: with the installed form of <drover.h>, and
# without internal headers of drover.
$(DIGITS_OBJS): EXTRA_CFLAGS := -UDROVER_BUILD -Icollectives -Ilauncher/client -DDIGITS_DATA='"$(CURDIR)/examples/digits/data/digits.csv"'
$(DIGITS)/digits: $(DIGITS_OBJS) $(B)/examples/libkit.a $(LIBDROVER)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) $(call bundled,../../lib/bundled) -Wl,-rpath,'$$ORIGIN/../../lib' -o $@ $(DIGITS_OBJS) $(B)/examples/libkit.a -L$(B)/lib -ldrover -lopenblas -ldl -lm
	$(if $(filter build/dev,$(B)),@ln -sfn ../../$(DIGITS)/digits examples/digits/digits)

# The unit test links the objects that it tests.
$(B)/tests/unit/examples-digits: $(patsubst %,$(B)/obj/examples/digits/%.o,mlp_cpu data)

CUDA_LIB := $(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib))
$(DIGITS)/mlp_cuda.so: examples/digits/mlp_cuda.cu $(addprefix examples/,kit/launch.h kit/rng.h $(addprefix digits/,mlp.h formula.h build.mk)) $(STAMP)
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(NVCC) $(if $(WERROR),-Werror all-warnings) -O3 -std=c++17 -shared -Xcompiler -fPIC,-fvisibility=hidden,-Wall \
	    -arch=all-major -Wno-deprecated-gpu-targets \
	    -o $@ $< -L$(CUDA_LIB) -l:$(notdir $(firstword $(wildcard $(CUDA_LIB)/libcublas.so.1?))) \
	    -Xlinker -rpath,$(CUDA_LIB)

EXAMPLES := $(DIGITS)/digits $(if $(NVCC),$(if $(wildcard $(CUDA_LIB)/libcublas.so.1?),$(DIGITS)/mlp_cuda.so))
all: $(EXAMPLES)
