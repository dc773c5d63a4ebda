# Enables the language CUDA if a compiler for it is found, and sets MOBULA_CUDA_FOUND. Include it at file scope, in the
# directory whose targets have .cu sources.
#
# Search order: CMAKE_CUDA_COMPILER or the environment's CUDACXX; nvcc of a CUDA toolkit (CUDAToolkit_ROOT, PATH,
# /usr/local/cuda); nvcc of PyPI's wheels nvidia-cuda-nvcc and nvidia-cuda-runtime, in MOBULA_CUDA_WHEELS or in the
# active virtual environment. A compiler that fails to compile and link C++20 counts as not found.
option(MOBULA_CUDA "Build what needs a CUDA compiler, if one is found" ON)
set(MOBULA_CUDA_WHEELS "${PROJECT_SOURCE_DIR}/build/cuda-wheels" CACHE PATH
    "Directory into which pip installed nvidia-cuda-nvcc and nvidia-cuda-runtime")
include(CheckLanguage)

set(MOBULA_CUDA_FOUND OFF)
set(compilers "")
if(MOBULA_CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(compilers "${CMAKE_CUDA_COMPILER}")
  elseif(DEFINED ENV{CUDACXX})
    set(compilers "$ENV{CUDACXX}")
  else()
    find_program(MOBULA_NVCC nvcc HINTS "${CUDAToolkit_ROOT}" ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
    mark_as_advanced(MOBULA_NVCC)
    file(GLOB wheels "${MOBULA_CUDA_WHEELS}/nvidia/cu*/bin/nvcc"
         "${MOBULA_CUDA_WHEELS}/lib/python3*/site-packages/nvidia/cu*/bin/nvcc"
         "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cu*/bin/nvcc")
    list(APPEND compilers "${MOBULA_NVCC}" ${wheels})
    list(FILTER compilers EXCLUDE REGEX "NOTFOUND$")
  endif()
endif()

set(given_flags "$ENV{CUDAFLAGS}")
foreach(compiler IN LISTS compilers)
  # CMake caches a failed check, and a compiler may have been installed since.
  if(CMAKE_CUDA_COMPILER MATCHES "NOTFOUND$")
    unset(CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)
  endif()
  set(ENV{CUDACXX} "${compiler}")
  # The wheels contain lib, and their nvcc links with lib64.
  cmake_path(GET compiler PARENT_PATH toolkit)
  cmake_path(GET toolkit PARENT_PATH toolkit)
  if(EXISTS "${toolkit}/lib/libcudart_static.a" AND NOT EXISTS "${toolkit}/lib64")
    set(ENV{CUDAFLAGS} "-L${toolkit}/lib ${given_flags}")
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    break()
  endif()
  set(ENV{CUDAFLAGS} "${given_flags}")
endforeach()

if(CMAKE_CUDA_COMPILER AND compilers)
  # Machine code for each listed generation, and PTX for later ones.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" OR CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.0)
    set(MOBULA_CUDA_FOUND ON)
  endif()
endif()
if(NOT MOBULA_CUDA_FOUND)
  message(STATUS "No CUDA compiler for C++20: programs with kernels are left out (cmake/mobula_cuda.cmake)")
endif()
