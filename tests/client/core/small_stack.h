// Runs a function on a thread with a small stack, to show that recursion depth is independent of
// the input.
// Thread: any.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>
#include <functional>

namespace mobula::internal::test {

inline constexpr std::size_t small_stack_bytes = std::size_t{256} << 10;

inline void run_on_small_stack(std::function<void()> body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, small_stack_bytes), 0);
  pthread_t thread{};
  const auto run = [](void* given) -> void* {
    (*static_cast<std::function<void()>*>(given))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &body), 0);
  ASSERT_EQ(pthread_attr_destroy(&attributes), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
}

}  // namespace mobula::internal::test
