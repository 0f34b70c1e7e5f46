// Catch2 v3 brings its own main; this file only gives the support library a source.
