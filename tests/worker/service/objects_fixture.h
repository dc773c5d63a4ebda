// Processes that write and read large objects like the client's engine.
#pragma once

#include <cstring>
#include <optional>

#include "service_fixture.h"
#include "store/slab.h"

namespace mobula::internal::worker {

inline constexpr std::int64_t object_bytes = 6 << 20;

class ServiceObjectsTest : public ServiceTest {
 protected:
  // The slab's mapping lives as long as the test.
  void write(FakeDriver& owner, ObjectId object) {
    owner.say(ReserveObjectRequest{object, object_bytes});
    ASSERT_TRUE(until([&] { return owner.received<ReserveObjectReply>() != nullptr; }));
    const ReserveObjectReply reserved = *owner.received<ReserveObjectReply>();
    ASSERT_FALSE(reserved.failure.has_value()) << reserved.failure->text;
    ASSERT_TRUE(reserved.new_slab);
    ASSERT_EQ(owner.fds.size(), 1u);
    slab_.emplace(WritableSlab::map(owner.fds.front().get(),
                                    static_cast<std::uint64_t>(reserved.slab_bytes), Paging::on_use)
                      .value());
    const auto bytes =
        slab_->bytes(static_cast<std::uint64_t>(reserved.location.offset), object_bytes).value();
    std::memset(bytes.data(), 0x5a, bytes.size());
    owner.say(SealObjectRequest{object, owner.process(), node_, false, {}});
    ASSERT_TRUE(until([&] { return owner.received<SealObjectReply>() != nullptr; }));
  }
  // Checks the bytes at the location that the reader received.
  void expect_readable(FakeDriver& reader) {
    const FetchObjectReply readable = *reader.received<FetchObjectReply>();
    ASSERT_FALSE(readable.failure.has_value()) << readable.failure->text;
    ASSERT_FALSE(reader.fds.empty());
    const auto slab =
        SlabMapping::map(reader.fds.back().get(), static_cast<std::uint64_t>(readable.slab_bytes),
                         Paging::on_use)
            .value();
    const auto bytes = slab->bytes().subspan(static_cast<std::size_t>(readable.location.offset),
                                             static_cast<std::size_t>(object_bytes));
    EXPECT_EQ(bytes.front(), std::byte{0x5a});
    EXPECT_EQ(bytes.back(), std::byte{0x5a});
  }

  std::optional<WritableSlab> slab_;
};

}  // namespace mobula::internal::worker
