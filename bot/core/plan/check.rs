//! What every plan must hold; run before anything is proposed.
