"""What commands show and save: tables, pages and files."""
