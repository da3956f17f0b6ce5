// expect: compiles
extern "C" __global__ void kernel(float* y) {
  unsigned a = 0, b = 0; float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
    : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a), "r"(a), "r"(b));
  asm volatile("cp.async.commit_group; /* none */ cp.async.wait_all;");
  y[threadIdx.x] = c0 + c1 + c2 + c3;
}
