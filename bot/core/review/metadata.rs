//! What the bot writes down about itself in the text of a proposal.
