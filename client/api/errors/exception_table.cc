#include "client/api/errors/exception_table.h"

#include <any>
#include <functional>
#include <future>
#include <map>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <typeindex>
#include <variant>

#include "base/mutex.h"

namespace mobula::internal::client {

namespace {

using detail::ExceptionCodec;

struct Table {
  Mutex mutex;
  // Entries are never removed, so pointers to them stay valid without the lock.
  std::map<std::string, ExceptionCodec, std::less<>> by_key MOBULA_GUARDED_BY(mutex);
  std::map<std::type_index, const ExceptionCodec*> by_type MOBULA_GUARDED_BY(mutex);
};

bool insert(Table& table, const ExceptionCodec& codec) MOBULA_REQUIRES(table.mutex) {
  const auto [row, added] = table.by_key.try_emplace(codec.type->name(), codec);
  if (!added) return true;
  table.by_type.emplace(*codec.type, &row->second);
  for (const std::type_info* type : codec.with_nested) table.by_type.emplace(*type, &row->second);
  return true;
}

// Exceptions with a fixed text: the message carries only the type.
template <class E>
void insert_textless(Table& table) MOBULA_REQUIRES(table.mutex) {
  ExceptionCodec codec;
  codec.type = &typeid(E);
  codec.with_nested = detail::nested_types<E>();
  codec.encode = [](const std::exception&) { return std::vector<std::byte>(); };
  codec.rethrow = [](std::span<const std::byte>) { detail::throw_nested(E()); };
  insert(table, codec);
}

template <class E>
void insert_with_text(Table& table) MOBULA_REQUIRES(table.mutex) {
  ExceptionCodec codec;
  codec.type = &typeid(E);
  codec.with_nested = detail::nested_types<E>();
  codec.encode = &detail::encode_exception<E>;
  codec.rethrow = &detail::rethrow_exception_from<E>;
  insert(table, codec);
}

struct SystemErrorParts {
  std::string category;
  int value = 0;
  std::string text;
};

// A category is an object of the process that made it. Categories of the standard library are found
// by name.
void insert_system_error(Table& table) MOBULA_REQUIRES(table.mutex) {
  ExceptionCodec codec;
  codec.type = &typeid(std::system_error);
  codec.with_nested = detail::nested_types<std::system_error>();
  codec.encode = [](const std::exception& thrown) {
    const auto& error = dynamic_cast<const std::system_error&>(thrown);
    // what() is the given text, ": ", and the message of the code, which the constructor adds
    // again.
    std::string text = detail::own_text(error);
    const std::string message = error.code().message();
    if (text.ends_with(message)) text.resize(text.size() - message.size());
    if (text.ends_with(": ")) text.resize(text.size() - 2);
    return detail::to_bytes(
        SystemErrorParts{error.code().category().name(), error.code().value(), std::move(text)});
  };
  codec.rethrow = [](std::span<const std::byte> bytes) {
    const auto parts = detail::decode<SystemErrorParts>(detail::StoredValue{.bytes = bytes});
    for (const std::error_category* category :
         {&std::generic_category(), &std::system_category(), &std::future_category()}) {
      if (parts.category == category->name()) {
        detail::throw_nested(std::system_error(parts.value, *category, parts.text));
      }
    }
  };
  insert(table, codec);
}

Table* make_table() {
  auto* table = new Table;
  const MutexLock lock(table->mutex);
  insert_with_text<std::runtime_error>(*table);
  insert_with_text<std::logic_error>(*table);
  insert_with_text<std::invalid_argument>(*table);
  insert_with_text<std::domain_error>(*table);
  insert_with_text<std::length_error>(*table);
  insert_with_text<std::out_of_range>(*table);
  insert_with_text<std::range_error>(*table);
  insert_with_text<std::overflow_error>(*table);
  insert_with_text<std::underflow_error>(*table);
  insert_textless<std::exception>(*table);
  insert_textless<std::bad_alloc>(*table);
  insert_textless<std::bad_array_new_length>(*table);
  insert_textless<std::bad_cast>(*table);
  insert_textless<std::bad_typeid>(*table);
  insert_textless<std::bad_function_call>(*table);
  insert_textless<std::bad_optional_access>(*table);
  insert_textless<std::bad_variant_access>(*table);
  insert_textless<std::bad_any_cast>(*table);
  insert_textless<std::bad_weak_ptr>(*table);
  insert_system_error(*table);
  return table;
}

// Filled by static initializers of user code, and used until the process exits.
Table& table() {
  static Table* const process_wide = make_table();
  return *process_wide;
}

}  // namespace

const ExceptionCodec* find_exception(const std::string& key) {
  if (key.empty()) return nullptr;
  Table& all = table();
  const MutexLock lock(all.mutex);
  const auto row = all.by_key.find(key);
  return row == all.by_key.end() ? nullptr : &row->second;
}

const ExceptionCodec* find_exception(const std::exception& thrown) {
  Table& all = table();
  const MutexLock lock(all.mutex);
  const auto row = all.by_type.find(typeid(thrown));
  return row == all.by_type.end() ? nullptr : row->second;
}

std::string exception_key(const ExceptionCodec& codec) { return codec.type->name(); }

void rethrow_registered(const ExceptionCodec& codec, std::span<const std::byte> bytes) {
  try {
    codec.rethrow(bytes);
  } catch (const SerializationError&) {
    // The bytes do not decode as this exception. The caller still has the TaskError.
    if (codec.type->name() == std::string(typeid(SerializationError).name())) throw;
  }
}

}  // namespace mobula::internal::client

namespace mobula::detail {

bool add_exception(const ExceptionCodec& codec) {
  auto& all = internal::client::table();
  const internal::MutexLock lock(all.mutex);
  return internal::client::insert(all, codec);
}

}  // namespace mobula::detail
