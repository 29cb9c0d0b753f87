# The GPU implementation of examples/gpt, if there is a CUDA toolkit with cuBLASLt. CUDA_LIB is that of examples/digits.
CUBLASLT := $(firstword $(wildcard $(CUDA_LIB)/libcublasLt.so.1?))
$(GPT)/gpt_cuda.so: examples/gpt/gpt_cuda.cu $(addprefix examples/,kit/launch.h $(addprefix gpt/,attend.cuh kernels.cuh ops.h cuda.mk)) $(STAMP)
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(NVCC) $(if $(WERROR),-Werror all-warnings) -O3 -std=c++17 -shared -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wno-unknown-pragmas \
	    -arch=all-major -Wno-deprecated-gpu-targets --threads 2 -o $@ $< -L$(CUDA_LIB) -l:$(notdir $(CUBLASLT)) -Xlinker -rpath,$(CUDA_LIB)

EXAMPLES += $(if $(NVCC),$(if $(CUBLASLT),$(GPT)/gpt_cuda.so))
