// SPDX-License-Identifier: Apache-2.0
// saxpy that does not compile: the message must name this line.
__global__ void saxpy(const float* x, float* y, float a, unsigned n) { y[i] = a * x[i] + y[i]; }
