// Registered exception types of a program, including those of the standard library, with their
// codecs. Filled before main, and by users at any time.
// Thread: any.
#pragma once

#include <cstddef>
#include <exception>
#include <span>
#include <string>

#include <mobula/exceptions.h>

namespace mobula::internal::client {

// Finds a codec by its key in messages; null for an unregistered type.
const detail::ExceptionCodec* find_exception(const std::string& key);

// Finds a codec by the exact type of `thrown`, or by the type wrapped to carry a nested exception.
// Null if unregistered.
const detail::ExceptionCodec* find_exception(const std::exception& thrown);

// The key of a codec in messages.
std::string exception_key(const detail::ExceptionCodec& codec);

// Throws the exception with the current one nested in it. Returns if the bytes cannot be decoded.
void rethrow_registered(const detail::ExceptionCodec& codec, std::span<const std::byte> bytes);

}  // namespace mobula::internal::client
