// Compares hashes with the standard's examples and Python's hashlib.
#include "kernels/base/sha256.h"

#include "tests/support/catch.h"

namespace hearth::test {

TEST_CASE("sha256: the standard's examples") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256: lengths around a block") {
  CHECK(sha256_hex(std::string(55, '\xff')) ==
        "aadaed00a3c5fbb8072ae7f1984ba8199fbe5272de427d11eaf31583af37db51");
  CHECK(sha256_hex(std::string(56, '\xff')) ==
        "528ff50ab05e77bbbd224a9ec86165dbb6824a9a9efb544be0a1d57d5b416457");
  CHECK(sha256_hex(std::string(57, '\xff')) ==
        "6eaa0abf8d7eda3e157692f5191a59bc08196ac193f6ac3bdde2af54214f2240");
  CHECK(sha256_hex(std::string(63, '\xff')) ==
        "d12449c8124182545ae91924286cc6af13528bcf62a5ddbd5e00b891fffc1b48");
  CHECK(sha256_hex(std::string(64, '\xff')) ==
        "8667e718294e9e0df1d30600ba3eeb201f764aad2dad72748643e4a285e1d1f7");
  CHECK(sha256_hex(std::string(65, '\xff')) ==
        "855c9a28fff2bbbd71327165554a00c6fdd44d5d58c1f12b8fdff29b5d67f001");
  CHECK(sha256_hex(std::string(119, '\xff')) ==
        "b863f94597d433ef2280e3b4656f13ea265a79bb8047287321c218905b03c99b");
  CHECK(sha256_hex(std::string(120, '\xff')) ==
        "9088fee917e5a748c2f0b4f5458c1cbdabbd696291c69be6e605bae0ef779e8f");
  CHECK(sha256_hex(std::string(128, '\xff')) ==
        "e9175db65a9789096ca9cb5524d3abc2107df03e3c9ba3af1aca628f9c5d3bd2");
}

}  // namespace hearth::test
