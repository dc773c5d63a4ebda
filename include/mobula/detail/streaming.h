// Compile-time facts of streaming calls, and the loop that gives the items of a generator.
// Thread: any; no state.
#pragma once

#include <cstddef>

#include <mobula/detail/registry.h>

namespace mobula {

template <class T>
class generator;  // <mobula/generator.h>
template <class T>
class ObjectRefStream;  // <mobula/object_ref_stream.h>

}  // namespace mobula

namespace mobula::detail {

// Results of streaming calls.
template <class R>
inline constexpr bool is_generator = false;
template <class T>
inline constexpr bool is_generator<generator<T>> = true;
template <class Refs>
inline constexpr bool is_ref_stream = false;
template <class T>
inline constexpr bool is_ref_stream<ObjectRefStream<T>> = true;

// Stores the items of a generator, one after another.
template <class T>
void give_items(const Invocation& call, generator<T> items) {
  std::size_t index = 0;
  while (const T* item = items.next()) give_result(call, index++, OutgoingValue<T>(*item));
}

}  // namespace mobula::detail
