# The GPU implementation of examples/gpt, if there is a CUDA toolkit with cuBLASLt. CUDA_LIB is that of examples/digits.
CUBLASLT := $(firstword $(wildcard $(CUDA_LIB)/libcublasLt.so.1?))
$(GPT)/gpt_cuda.so: examples/gpt/gpt_cuda.cu $(addprefix examples/,kit/launch.h $(addprefix gpt/,attend.cuh attend_cudnn.h attend_path.h kernels.cuh ops.h cuda.mk)) $(STAMP)
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(NVCC) $(if $(WERROR),-Werror all-warnings) -O3 -std=c++17 -shared -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wno-unknown-pragmas \
	    -arch=all-major -Wno-deprecated-gpu-targets --threads 2 -o $@ $< -L$(CUDA_LIB) -l:$(notdir $(CUBLASLT)) -Xlinker -rpath,$(CUDA_LIB)

EXAMPLES += $(if $(NVCC),$(if $(CUBLASLT),$(GPT)/gpt_cuda.so))

# Attention by cuDNN: needs the headers of cuDNN, and those of its C++ frontend (scripts/setup brings them). g++ compiles it, since
# nothing in it is a kernel; -O1, since it takes half a minute.
CUDNN_WHEELS := $(wildcard build/cudnn/lib/python3*/site-packages build/cuda/lib/python3*/site-packages)
CUDNN_FRONTEND := $(patsubst %/cudnn_frontend.h,%,$(firstword $(wildcard $(addsuffix /include/cudnn_frontend.h,$(CUDNN_WHEELS) $(CUDA_HOME) /usr))))
CUDNN_INCLUDE := $(patsubst %/cudnn.h,%,$(firstword $(wildcard $(addsuffix /include/cudnn.h,$(CUDA_HOME) /usr) /usr/include/*-linux-gnu/cudnn.h $(addsuffix /nvidia/cudnn/include/cudnn.h,$(CUDNN_WHEELS)))))
CUDNN_LIB := $(abspath $(firstword $(wildcard $(CUDNN_INCLUDE)/../lib64 $(CUDNN_INCLUDE)/../lib)))
ATTEND_CUDNN := $(if $(wildcard $(CUDA_HOME)/include/cuda_runtime.h),$(if $(CUDNN_FRONTEND),$(if $(CUDNN_INCLUDE),$(GPT)/attend_cudnn.so)))
$(GPT)/attend_cudnn.so: examples/gpt/attend_cudnn.cc examples/gpt/attend_cudnn.h examples/gpt/cuda.mk $(STAMP)
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(CXX) -std=c++17 -O1 -fPIC -shared -fvisibility=hidden -Wall -Wextra $(if $(WERROR),-Werror) -static-libstdc++ -static-libgcc \
	    -isystem $(CUDNN_FRONTEND) -isystem $(CUDNN_INCLUDE) -isystem $(CUDA_HOME)/include -o $@ $< -ldl $(if $(CUDNN_LIB),-Wl$(comma)-rpath$(comma)$(CUDNN_LIB))
EXAMPLES += $(ATTEND_CUDNN)
