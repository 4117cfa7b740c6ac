drop table StringIds
create table StringIds (id integer, value text as (hex(zeroblob(30000))))
insert into StringIds values (1)