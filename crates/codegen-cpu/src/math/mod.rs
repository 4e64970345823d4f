//! Expansions of elementary functions into arithmetic of `vir`.
