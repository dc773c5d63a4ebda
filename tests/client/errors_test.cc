#include <gtest/gtest.h>

#include <any>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <mobula/mobula.h>

#include "client/fake_runtime.h"

namespace {

class ParseError : public std::exception {
 public:
  explicit ParseError(const std::string& text) : text_(text) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

class CodedError final : public std::exception {
 public:
  CodedError(int code, std::string detail) : code_(code), detail_(std::move(detail)) {}
  const char* what() const noexcept override { return detail_.c_str(); }
  int code() const { return code_; }

 private:
  int code_;
  std::string detail_;
};

struct Unregistered : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace

template <>
struct mobula::Serializer<CodedError> {
  static void write(Writer& out, const CodedError& error) {
    out.write(error.code());
    out.write(std::string(error.what()));
  }
  static CodedError read(Reader& in) {
    const int code = in.read<int>();
    return {code, in.read<std::string>()};
  }
};

namespace {

using mobula::TaskError;
using mobula::detail::ErrorKind;
using mobula::detail::ErrorRecord;
using mobula::testing::Installed;

const bool registered =
    mobula::register_exception<ParseError>() && mobula::register_exception<CodedError>();

int fails_to_parse() { throw ParseError("line 3"); }
int fails_with_code() { throw CodedError(7, "seven"); }
int fails_unregistered() { throw Unregistered("odd"); }
int fails_with_a_number() { throw 42; }
int runs_out() { throw std::bad_alloc(); }
int is_out_of_range() { return std::vector<int>{}.at(3); }
int system_fails() { throw std::system_error(ENOENT, std::generic_category(), "open x"); }
int lets_through() { return mobula::task<fails_to_parse>.remote().get(); }
int lets_unregistered_through() { return mobula::task<fails_unregistered>.remote().get(); }
int wraps() {
  try {
    return mobula::task<fails_to_parse>.remote().get();
  } catch (...) {
    std::throw_with_nested(std::logic_error("outer"));
  }
}
int times_out() { throw mobula::GetTimeoutError("nothing came"); }

template <class E>
E thrown_by(const mobula::ObjectRef<int>& ref) {
  try {
    ref.get();
  } catch (const E& error) {
    return error;
  }
  throw std::logic_error("nothing was thrown");
}

// The TaskError nested in the exception of `ref`.
TaskError nested_in(const mobula::ObjectRef<int>& ref) {
  try {
    ref.get();
  } catch (const std::exception& error) {
    try {
      std::rethrow_if_nested(error);
    } catch (const TaskError& nested) {
      return nested;
    }
  }
  throw std::logic_error("nothing was nested");
}

TEST(TaskErrors, ThrowsRegisteredTypeWithNestedTaskError) {
  Installed runtime;
  EXPECT_TRUE(registered);
  const auto ref = mobula::task<fails_to_parse>.remote();
  EXPECT_STREQ(thrown_by<ParseError>(ref).what(), "line 3");
  const TaskError nested = nested_in(ref);
  EXPECT_NE(nested.remote_type().find("ParseError"), std::string::npos);
  EXPECT_EQ(nested.message(), "line 3");
  EXPECT_NE(nested.task().find("fails_to_parse"), std::string::npos);
  EXPECT_NE(std::string(nested.what()).find("line 3"), std::string::npos);
}

TEST(TaskErrors, RethrownText_NamesTask) {
  Installed runtime;
  try {
    mobula::task<fails_to_parse>.remote().get();
    FAIL() << "nothing was thrown";
  } catch (const ParseError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("fails_to_parse"), std::string::npos) << text;
    EXPECT_NE(text.find("line 3"), std::string::npos) << text;
  }
}

TEST(TaskErrors, RethrownText_IsNotRepeated) {
  Installed runtime;
  try {
    mobula::task<lets_through>.remote().get();
    FAIL() << "nothing was thrown";
  } catch (const ParseError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("line 3"), text.rfind("line 3")) << text;
    EXPECT_EQ(text.find("fails_to_parse"), std::string::npos) << text;
  }
}

TEST(TaskErrors, TransfersFieldsBySerializer) {
  Installed runtime;
  EXPECT_EQ(thrown_by<CodedError>(mobula::task<fails_with_code>.remote()).code(), 7);
}

TEST(TaskErrors, RegistersStandardExceptions) {
  Installed runtime;
  EXPECT_THROW(mobula::task<runs_out>.remote().get(), std::bad_alloc);
  EXPECT_THROW(mobula::task<is_out_of_range>.remote().get(), std::out_of_range);
  const auto error = thrown_by<std::system_error>(mobula::task<system_fails>.remote());
  EXPECT_EQ(error.code(), std::errc::no_such_file_or_directory);
  EXPECT_STREQ(error.what(), "open x: No such file or directory");
}

TEST(TaskErrors, UnregisteredTypes_KeepTypeAndText) {
  Installed runtime;
  const auto error = thrown_by<TaskError>(mobula::task<fails_unregistered>.remote());
  EXPECT_NE(error.remote_type().find("Unregistered"), std::string::npos);
  EXPECT_EQ(error.message(), "odd");
  EXPECT_EQ(error.cause(), nullptr);
  const auto number = thrown_by<TaskError>(mobula::task<fails_with_a_number>.remote());
  EXPECT_EQ(number.remote_type(), "int");
}

TEST(TaskErrors, PassesThroughSeveralTasks) {
  Installed runtime;
  const auto ref = mobula::task<lets_through>.remote();
  EXPECT_STREQ(thrown_by<ParseError>(ref).what(), "line 3");
  const TaskError outer = nested_in(ref);
  EXPECT_NE(outer.task().find("lets_through"), std::string::npos);
  EXPECT_THROW(std::rethrow_exception(outer.cause()), ParseError);

  const auto plain = thrown_by<TaskError>(mobula::task<lets_unregistered_through>.remote());
  EXPECT_NE(plain.remote_type().find("Unregistered"), std::string::npos);
  EXPECT_NE(plain.task().find("lets_unregistered_through"), std::string::npos);
  try {
    std::rethrow_exception(plain.cause());
  } catch (const TaskError& inner) {
    EXPECT_NE(inner.task().find("fails_unregistered"), std::string::npos);
  }
}

TEST(TaskErrors, KeepsNestedExceptions) {
  Installed runtime;
  const auto ref = mobula::task<wraps>.remote();
  EXPECT_STREQ(thrown_by<std::logic_error>(ref).what(), "outer");
  const TaskError outer = nested_in(ref);
  EXPECT_EQ(outer.remote_type(), "std::logic_error");
  EXPECT_THROW(std::rethrow_exception(outer.cause()), ParseError);
}

TEST(TaskErrors, KeepsRemoteErrorsApartFromCallErrors) {
  Installed runtime;
  const auto error = thrown_by<TaskError>(mobula::task<times_out>.remote());
  EXPECT_EQ(error.remote_type(), "mobula::GetTimeoutError");
  EXPECT_THROW(std::rethrow_exception(error.cause()), mobula::GetTimeoutError);
}

TEST(TaskErrors, ReturnsErrorsFromTryGet) {
  Installed runtime;
  const auto result = mobula::try_get(mobula::task<fails_to_parse>.remote());
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(dynamic_cast<const TaskError*>(&result.error()), nullptr);
  EXPECT_THROW(result.value(), ParseError);
}

TEST(TaskErrors, ResultStoreFull_ThrowsStoreError) {
  Installed runtime;
  runtime->refuse_results = true;
  const auto ref = mobula::task<[] { return 1; }>.remote();
  EXPECT_THROW(ref.get(), mobula::ObjectStoreFullError);
}

template <class E>
void expect_thrown(ErrorKind kind) {
  ErrorRecord record;
  record.kind = kind;
  record.message = "text";
  try {
    mobula::detail::throw_error(record);
  } catch (const mobula::Error& error) {
    EXPECT_NE(dynamic_cast<const E*>(&error), nullptr) << static_cast<int>(kind);
    EXPECT_NE(std::string(error.what()).find("text"), std::string::npos);
  }
  EXPECT_NE(dynamic_cast<const E*>(mobula::detail::make_error(record).get()), nullptr);
  EXPECT_EQ(E("text").record().kind, kind);
}

TEST(Errors, MapsEachKindToItsClass) {
  expect_thrown<mobula::NotInitializedError>(ErrorKind::not_initialized);
  expect_thrown<mobula::InvalidRequestError>(ErrorKind::invalid_request);
  expect_thrown<mobula::NotFoundError>(ErrorKind::not_found);
  expect_thrown<mobula::PendingLimitError>(ErrorKind::pending_limit);
  expect_thrown<mobula::UnschedulableError>(ErrorKind::unschedulable);
  expect_thrown<mobula::TaskError>(ErrorKind::task);
  expect_thrown<mobula::TaskCancelledError>(ErrorKind::task_cancelled);
  expect_thrown<mobula::WorkerCrashedError>(ErrorKind::worker_crashed);
  expect_thrown<mobula::OutOfMemoryError>(ErrorKind::out_of_memory);
  expect_thrown<mobula::ActorDiedError>(ErrorKind::actor_died);
  expect_thrown<mobula::ActorUnavailableError>(ErrorKind::actor_unavailable);
  expect_thrown<mobula::ObjectLostError>(ErrorKind::object_lost);
  expect_thrown<mobula::GetTimeoutError>(ErrorKind::get_timeout);
  expect_thrown<mobula::ObjectStoreFullError>(ErrorKind::object_store_full);
  expect_thrown<mobula::TransferError>(ErrorKind::transfer);
  expect_thrown<mobula::TensorSharedError>(ErrorKind::tensor_shared);
  expect_thrown<mobula::PlacementGroupRemovedError>(ErrorKind::placement_group_removed);
  expect_thrown<mobula::ConnectionError>(ErrorKind::connection);
  expect_thrown<mobula::PermissionError>(ErrorKind::permission);
  expect_thrown<mobula::ProtocolMismatchError>(ErrorKind::protocol_mismatch);
  expect_thrown<mobula::SerializationError>(ErrorKind::serialization);
  expect_thrown<mobula::InterruptedError>(ErrorKind::interrupted);
}

TEST(Errors, CarriesFacts) {
  ErrorRecord record;
  record.kind = ErrorKind::worker_crashed;
  record.signal = 9;
  record.log_tail = "last words";
  const mobula::WorkerCrashedError crashed(std::make_shared<const ErrorRecord>(record));
  EXPECT_EQ(crashed.signal(), 9);
  EXPECT_EQ(crashed.log_tail(), "last words");
}

TEST(Errors, ActorDied_CauseIsNested) {
  ErrorRecord record;
  record.kind = ErrorKind::actor_died;
  record.message = "the constructor threw";
  record.actor_id = "a1";
  try {
    throw ParseError("line 3");
  } catch (...) {
    record.nested.push_back(mobula::detail::record_current_exception());
  }
  try {
    mobula::detail::throw_error(record);
  } catch (const mobula::ActorDiedError& died) {
    EXPECT_EQ(died.actor_id(), "a1");
    EXPECT_THROW(std::rethrow_if_nested(died), ParseError);
  }
}

TEST(Errors, ShowsLastOutputOfProcess) {
  ErrorRecord record;
  record.kind = ErrorKind::worker_crashed;
  record.message = "it crashed";
  record.log_tail = "first\nsecond";
  EXPECT_STREQ(mobula::detail::make_error(record)->what(),
               "it crashed; its last output:\n    first\n    second");
}

TEST(Errors, RestoresRecordsFromBytes) {
  ErrorRecord record;
  record.kind = ErrorKind::task;
  record.message = "m";
  record.process = 12;
  record.exception_bytes = {std::byte{1}};
  record.nested.push_back(record);
  const auto bytes = mobula::detail::encode(record);
  const auto decoded = mobula::detail::decode_error(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->nested.at(0).message, "m");
  EXPECT_EQ(decoded->process, 12);
  EXPECT_FALSE(mobula::detail::decode_error(std::span(bytes).first(bytes.size() - 1)));
  EXPECT_FALSE(mobula::detail::decode_error({}));
}

TEST(Errors, UnreadableExceptionBytes_ThrowTaskError) {
  ErrorRecord record;
  record.kind = ErrorKind::task;
  record.remote_type = "CodedError";
  record.exception_type = typeid(CodedError).name();
  record.exception_bytes = {std::byte{1}, std::byte{2}};
  EXPECT_THROW(mobula::detail::throw_error(record), TaskError);
}

}  // namespace
