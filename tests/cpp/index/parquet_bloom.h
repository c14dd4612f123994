// Bits of Bloom filters in Parquet files written by Arrow C++, as hex.
// tests/index/test_bloom_filter.py checks that they are current.
#pragma once

namespace nimble::testing {

// Filter of "user-<i * i>@example.org" for i below 100.
inline constexpr char kParquetTexts[] =
    "923cff2e899d3b8fff32d288cc9b6599ed3edc0e33edbcce258bc75926d1813d"
    "c7755d9c352ef5daeaf5625a6fcecd632c9d7ecfd15f38a5b89bf2de35ff08fc"
    "dd6de09e73770a465eb685b92acc56d586e8a1bfcef50b326604bcfbead06aba"
    "399ba26d67fbde64b047a7d6d7bc34a6515b65e8755f26b14829e3ba9716367a";
// Filter of i * i * i for i below 100, as int64.
inline constexpr char kParquetNumbers[] =
    "af47236f9792b8bf7777dc6befd0bebf54fe05f3eb8b8cdfb2c9fd59a2f0e7e5"
    "cdc80e4c92850d2677002f3809d18087030d3265ad5c80564a06f09c833c948a"
    "1b569d1d5e8ec5ab55b31732e6d75e203befc8a47f302a8bf51ff994e38d70e5"
    "a21aa5cffde46865bdf499d657695d393b8e97f0d2b4523112c9dbd65bd98a2d";

}  // namespace nimble::testing
