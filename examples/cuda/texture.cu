// SPDX-License-Identifier: Apache-2.0
// Texture objects over an array (filtered, and not), over linear memory, and a surface that a kernel writes.
#include <algorithm>
#include <cmath>

#include "common.h"

using namespace example;

__global__ void sample_textures(cudaTextureObject_t image, cudaTextureObject_t list, float* out,
                                unsigned width, unsigned height) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  // Half way between two texels: the mean of both, exact in the filter's eight fractional bits; at the right
  // edge the clamped neighbour.
  const float mean = tex2D<float>(image, x + 1.0f, y + 0.5f);
  out[y * width + x] = mean + tex1Dfetch<float>(list, static_cast<int>(y * width + x));
}

__global__ void write_surface(cudaSurfaceObject_t surface, const float* in, unsigned width, unsigned height) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float old;
  surf2Dread(&old, surface, static_cast<int>(x * sizeof(float)), static_cast<int>(y));
  surf2Dwrite(old + in[y * width + x], surface, static_cast<int>(x * sizeof(float)), static_cast<int>(y));
}

cudaArray_t array_of(const std::vector<float>& texels, std::size_t width, std::size_t height,
                     unsigned flags) {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  CUDA(cudaMallocArray(&array, &format, width, height, flags));
  CUDA(cudaMemcpy2DToArray(array, 0, 0, texels.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
  return array;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 200, 1);
  device();
  const std::size_t width = o.size, height = o.size / 2 + 1, n = width * height;
  const auto image = noise_vector(n, 11, 64), list = noise_vector(n, 12, 64),
             canvas = noise_vector(n, 13, 64);

  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array_of(image, width, height, cudaArrayDefault);
  cudaTextureDesc sampling{};
  sampling.addressMode[0] = sampling.addressMode[1] = cudaAddressModeClamp;
  sampling.filterMode = cudaFilterModeLinear;
  sampling.readMode = cudaReadModeElementType;
  cudaTextureObject_t image_texture, list_texture;
  CUDA(cudaCreateTextureObject(&image_texture, &resource, &sampling, nullptr));

  cudaResourceDesc linear{};
  linear.resType = cudaResourceTypeLinear;
  linear.res.linear.devPtr = to_device(list);
  linear.res.linear.desc = cudaCreateChannelDesc<float>();
  linear.res.linear.sizeInBytes = n * sizeof(float);
  cudaTextureDesc plain{};
  plain.readMode = cudaReadModeElementType;
  CUDA(cudaCreateTextureObject(&list_texture, &linear, &plain, nullptr));

  cudaResourceDesc target{};
  target.resType = cudaResourceTypeArray;
  const cudaArray_t canvas_array = target.res.array.array =
      array_of(canvas, width, height, cudaArraySurfaceLoadStore);
  cudaSurfaceObject_t surface;
  CUDA(cudaCreateSurfaceObject(&surface, &target));

  float* dout = to_device(std::vector<float>(n));
  const dim3 grid(blocks(width, 16), blocks(height, 16)), block(16, 16);
  std::vector<float> out(n), drawn = canvas;
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    sample_textures<<<grid, block>>>(image_texture, list_texture, dout, static_cast<unsigned>(width),
                                     static_cast<unsigned>(height));
    LAUNCHED();
    write_surface<<<grid, block>>>(surface, dout, static_cast<unsigned>(width),
                                   static_cast<unsigned>(height));
    LAUNCHED();
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < width; ++x) {
        const float left = image[y * width + x], right = image[y * width + std::min(x + 1, width - 1)];
        out[y * width + x] = (left + right) / 2 + list[y * width + x];
        drawn[y * width + x] += out[y * width + x];
      }
  }
  std::vector<float> got(n);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaMemcpy2DFromArray(got.data(), width * 4, canvas_array, 0, 0, width * 4, height,
                             cudaMemcpyDeviceToHost));
  Verdict v;
  v.compare("out", to_host(dout, n), out);
  v.compare("canvas", got, drawn);
  return v.finish();
}
