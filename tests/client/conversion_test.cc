// The table that maps failures of the runtime to public exception types.
#include "client/engine/conversion.h"

#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <string>
#include <typeindex>
#include <typeinfo>

#include <mobula/errors.h>

#include "protocol/codec/codec.h"

namespace mobula::internal::client {
namespace {

// The type that a call of the public API throws for this record; its message must be kept.
std::type_index thrown_for(const detail::ErrorRecord& record, const std::string& text) {
  try {
    detail::throw_error(record);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    return typeid(error);
  }
}

std::type_index thrown_for_kind(ErrorKind kind) {
  ErrorRecord record;
  record.kind = kind;
  record.text = "the fault";
  ValueRecord value;
  value.is_error = true;
  return thrown_for(error_of(value, encode(record)), "the fault");
}

struct CodeRow {
  ErrorCode code;
  std::type_index plain, store, tensor;
};
const CodeRow code_rows[] = {
    {ErrorCode::not_found, typeid(NotFoundError), typeid(ObjectLostError), typeid(TransferError)},
    {ErrorCode::invalid_argument, typeid(InvalidRequestError), typeid(InvalidRequestError),
     typeid(InvalidRequestError)},
    {ErrorCode::already_exists, typeid(InvalidRequestError), typeid(InvalidRequestError),
     typeid(TransferError)},
    {ErrorCode::resource_exhausted, typeid(Error), typeid(ObjectStoreFullError),
     typeid(OutOfMemoryError)},
    {ErrorCode::unavailable, typeid(ConnectionError), typeid(ConnectionError),
     typeid(TransferError)},
    {ErrorCode::timed_out, typeid(ConnectionError), typeid(ObjectLostError), typeid(TransferError)},
    {ErrorCode::corrupt, typeid(ProtocolMismatchError), typeid(ObjectLostError),
     typeid(TransferError)},
    {ErrorCode::cancelled, typeid(TaskCancelledError), typeid(TaskCancelledError),
     typeid(TransferError)},
    {ErrorCode::permission_denied, typeid(PermissionError), typeid(PermissionError),
     typeid(TransferError)},
};

struct KindRow {
  ErrorKind kind;
  std::type_index type;
};
const KindRow kind_rows[] = {
    {ErrorKind::task, typeid(TaskError)},
    {ErrorKind::task_cancelled, typeid(TaskCancelledError)},
    {ErrorKind::worker_crashed, typeid(WorkerCrashedError)},
    {ErrorKind::out_of_memory, typeid(OutOfMemoryError)},
    {ErrorKind::actor_died, typeid(ActorDiedError)},
    {ErrorKind::actor_unavailable, typeid(ActorUnavailableError)},
    {ErrorKind::object_lost, typeid(ObjectLostError)},
    {ErrorKind::object_store_full, typeid(ObjectStoreFullError)},
    {ErrorKind::unschedulable, typeid(UnschedulableError)},
    {ErrorKind::pending_limit, typeid(PendingLimitError)},
    {ErrorKind::invalid_request, typeid(InvalidRequestError)},
    {ErrorKind::not_found, typeid(NotFoundError)},
    {ErrorKind::permission, typeid(PermissionError)},
    {ErrorKind::connection, typeid(ConnectionError)},
    {ErrorKind::placement_group_removed, typeid(PlacementGroupRemovedError)},
    {ErrorKind::other, typeid(Error)},
    {ErrorKind::not_initialized, typeid(NotInitializedError)},
    {ErrorKind::get_timeout, typeid(GetTimeoutError)},
    {ErrorKind::transfer, typeid(TransferError)},
    {ErrorKind::tensor_shared, typeid(TensorSharedError)},
    {ErrorKind::protocol_mismatch, typeid(ProtocolMismatchError)},
    {ErrorKind::serialization, typeid(SerializationError)},
    {ErrorKind::collective, typeid(CollectiveError)},
    {ErrorKind::interrupted, typeid(InterruptedError)},
};

TEST(ErrorMapping, CoversEachResultCode) {
  for (const CodeRow& row : code_rows) {
    const Failure failed = failure(row.code, "the fault");
    EXPECT_EQ(thrown_for(error_of(failed), "the fault"), row.plain) << to_string(row.code);
    EXPECT_EQ(thrown_for(store_error_of(failed), "the fault"), row.store) << to_string(row.code);
    EXPECT_EQ(thrown_for(tensor_error_of(failed), "the fault"), row.tensor) << to_string(row.code);
  }
}

TEST(ErrorMapping, CoversEachKindOfError) {
  for (const KindRow& row : kind_rows)
    EXPECT_EQ(thrown_for_kind(row.kind), row.type) << static_cast<int>(row.kind);
}

// A new code or kind needs a row: the first value after the last row is unknown to the product.
TEST(ErrorMapping, HasNoCodeWithoutARow) {
  for (std::size_t i = 0; i < std::size(code_rows); ++i)
    EXPECT_EQ(static_cast<std::size_t>(code_rows[i].code), i + 1);
  EXPECT_EQ(to_string(static_cast<ErrorCode>(std::size(code_rows) + 1)),
            to_string(static_cast<ErrorCode>(255)));
  EXPECT_EQ(error_kind_of(std::size(kind_rows)), ErrorKind::other);
}

// The rows are in the order of the numbers in messages, which releases since the first have in
// common: 0 is `task` although the enumerator has the value 6.
TEST(ErrorMapping, KeepsTheNumbersOfMessages) {
  for (std::size_t number = 0; number < std::size(kind_rows); ++number) {
    ErrorRecord record;
    record.kind = kind_rows[number].kind;
    auto bytes = encode(record);
    ASSERT_EQ(bytes.at(1), std::byte(number)) << "the first field after the head of the array";
    EXPECT_EQ(decode<ErrorRecord>(bytes).value().kind, record.kind);
    EXPECT_EQ(message_number(record.kind), number);
  }
  auto later = encode(ErrorRecord{});
  later.at(1) = std::byte{100};
  EXPECT_EQ(decode<ErrorRecord>(later).value().kind, ErrorKind::other);
}

// Commands and the console print the name of the class that a program catches.
TEST(ErrorMapping, NamesTheClassOfEachKind) {
  for (const KindRow& row : kind_rows) {
    EXPECT_NE(std::string(row.type.name()).find(class_name(row.kind)), std::string::npos)
        << class_name(row.kind);
  }
}

TEST(ErrorMapping, KeepsTheFactsOfAnError) {
  ErrorRecord record;
  record.kind = ErrorKind::unschedulable;
  record.text = "no node has 8 GPU";
  record.resource = "GPU";
  record.node = NodeId::of(3);
  record.task = TaskId::of(4);
  record.actor = ActorId::of(5);
  record.task_name = "f";
  record.pid = 7;
  record.signal = 9;
  record.exit_code = 2;
  record.last_lines = "last";
  const auto error = error_of(ValueRecord{}, encode(record));
  EXPECT_EQ(error.resource, "GPU");
  EXPECT_EQ(error.node_id, record.node.hex());
  EXPECT_EQ(error.task_id, record.task.hex());
  EXPECT_EQ(error.actor_id, record.actor.hex());
  EXPECT_EQ(error.task, "f");
  EXPECT_EQ(error.process, 7);
  EXPECT_EQ(error.signal, 9);
  EXPECT_EQ(error.exit_code, 2);
  EXPECT_EQ(error.log_tail, "last");
}

TEST(ErrorMapping, NestsCausesUpToABound) {
  ErrorRecord record;
  record.text = "innermost";
  for (int i = 0; i < 20; ++i) {
    ErrorRecord outer;
    outer.kind = ErrorKind::actor_died;
    outer.text = "outer";
    outer.cause = Payload(encode(record));
    record = outer;
  }
  auto error = error_of(ValueRecord{}, encode(record));
  int depth = 0;
  for (const auto* each = &error; !each->nested.empty(); each = &each->nested.front()) ++depth;
  EXPECT_EQ(depth, 8);
}

TEST(ErrorMapping, UnreadableBytesAreAnError) {
  const std::byte bytes[] = {std::byte{0xff}, std::byte{0x01}};
  EXPECT_EQ(thrown_for(error_of(ValueRecord{}, bytes), "cannot be read"),
            std::type_index(typeid(Error)));
}

}  // namespace
}  // namespace mobula::internal::client
