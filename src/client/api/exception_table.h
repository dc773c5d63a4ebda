// The exception types that a program has registered, the standard library's among them: which codec
// a thrown exception has, and which one a name from the wire has. Filled before main and by users
// at any time; any thread. Does not know what a task is.
#pragma once

#include <cstddef>
#include <exception>
#include <span>
#include <string>

#include <mobula/exceptions.h>

namespace mobula::internal::client {

// By what travels; null for a type this process has not registered.
const detail::ExceptionCodec* find_exception(const std::string& key);

// By the exact type of `thrown`, or of what was wrapped to carry a nested exception; null if none.
const detail::ExceptionCodec* find_exception(const std::exception& thrown);

// What travels for a codec.
std::string exception_key(const detail::ExceptionCodec& codec);

// Throws the exception, the one being handled nested in it. Returns where the bytes are none.
void rethrow_registered(const detail::ExceptionCodec& codec, std::span<const std::byte> bytes);

}  // namespace mobula::internal::client
