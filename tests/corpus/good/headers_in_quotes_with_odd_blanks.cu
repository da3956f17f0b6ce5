// expect: compiles
 	#	include	"math.h"	// why
#include"cuda_fp16.h"/* why */
  #  include <cstdint> 
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
