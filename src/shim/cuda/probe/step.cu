// SPDX-License-Identifier: Apache-2.0
// What the tests of the cubin reader and the probe use: parameters of every shape, variables of every kind.
#include <cstdint>
struct S { float* p; int n; float* q[2]; };
__constant__ float table[16];
__constant__ float* cptr;
__device__ int* gptr;
__device__ float garr[100];
__device__ float ginit = 3.0f;
__managed__ int mvar = 4;
extern "C" __global__ void step(float* a, int n, S s, char c) { extern __shared__ float sh[]; int i = blockIdx.x*blockDim.x+threadIdx.x; sh[threadIdx.x]=a[i]; __syncthreads(); if(i<n) a[i] = sh[threadIdx.x]*table[i%16]+s.p[i]+garr[i%100]+ginit+c+*cptr + s.q[1][0]; if (i==0) {gptr[0]=n+mvar;} }
template <class T> __global__ void tmpl(T* a, double b) { a[threadIdx.x] += T(b); }
template __global__ void tmpl<float>(float*, double);
